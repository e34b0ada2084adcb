/**
 * Rules for the conversations that a model accepts, as data: those of its wire format and of the model itself.
 *
 * {@link defaults} are the rules for an unknown model: every known model accepts such a conversation.
 *
 * **Example** (A server that accepts system messages anywhere)
 *
 * ```ts
 * const dialect: Dialect.Dialect = { ...Dialect.defaults, system: "anywhere" }
 * OpenAiCompatible.model({ name: "local", baseUrl, model: "mine", info: { dialect } })
 * ```
 */
import { Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

const { is } = Options
const { required } = is

export interface Dialect {
  /**
   * Name of the wire format, e.g. `anthropic-messages`. Servers of the same format reject the same malformed
   * requests. Default: each provider has its own.
   */
  readonly format?: string | undefined
  /** Namespaces of part options in which the target finds what it has signed, encrypted or stored. */
  readonly namespaces: ReadonlyArray<string>
  /**
   * Scope of a target's signatures: valid for every key and endpoint of the same provider and model, or only for the
   * target itself, e.g. because they are bound to an organisation.
   */
  readonly bound: "model" | "target"
  /**
   * Format of the ids of calls that the target runs itself. Identifies these calls in a history without other
   * evidence. Default: none.
   */
  readonly providerCalls?: RegExp | undefined
  /**
   * Thinking that is accepted in assistant messages:
   * - `none`: no thinking
   * - `own`: thinking of the target itself
   * - `plain`: as `own`, and unsigned thinking
   * - `required`: as `plain`, and every message with tool calls must have thinking; a placeholder is inserted where
   *   it is missing
   */
  readonly thinking: "none" | "own" | "plain" | "required"
  /**
   * Format of accepted call ids. Other ids become `call_` and at most 32 characters of `[a-zA-Z0-9_-]`, or
   * nine letters and digits where only these are accepted.
   */
  readonly callId: RegExp
  /** True when an id may be used by only one call of the conversation. */
  readonly uniqueCallIds: boolean
  /** Format of accepted tool names in calls. Other names are rewritten. */
  readonly toolName: RegExp
  /**
   * Accepted positions of system messages: anywhere, between user and assistant or at the end, or only at the
   * beginning.
   */
  readonly system: "anywhere" | "between" | "leading"
  /** Accepted last message: any; from the user or the beginning of an answer; or only from the user. */
  readonly ending: "any" | "prefill" | "user"
  /** True when a message with tool calls must directly follow a user message or results. */
  readonly callsFollowUser: boolean
  /** True when consecutive messages of one role are rejected, and also an assistant message at the beginning. */
  readonly alternates: boolean
  /**
   * Text of an assistant message between tool results and a user message, where the target rejects a user message right
   * after results. Default: none.
   */
  readonly afterResults?: string | undefined
  /** Option that makes the target accept the first call of a message when its signature is missing. */
  readonly unsignedCall:
    | { readonly namespace: string; readonly field: string; readonly value: string }
    | undefined
  /** Prefixes of accepted media types, e.g. `image/`; `undefined` for all. */
  readonly files: ReadonlyArray<string> | undefined
  /** Subset of `files` that is accepted by URL; `undefined` for all. */
  readonly linkedFiles: ReadonlyArray<string> | undefined
  /** True when files made by a model are accepted. */
  readonly assistantFiles: boolean
}

/** Rules that every known model accepts. */
export const defaults: Dialect = {
  namespaces: [],
  bound: "target",
  thinking: "own",
  callId: /^[a-zA-Z0-9_-]{1,40}$/,
  uniqueCallIds: true,
  toolName: /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/,
  system: "leading",
  ending: "user",
  callsFollowUser: true,
  alternates: true,
  unsignedCall: undefined,
  // Files stay by default: removing a user's attachment on a guess would be worse.
  files: undefined,
  linkedFiles: undefined,
  assistantFiles: false
}

const pattern = Kind.where((value) => value instanceof RegExp, "a RegExp")

/** Checks of the options, by field. */
export const checks: Options.Checks<Dialect> = {
  format: Kind.name,
  namespaces: required(Kind.names),
  bound: required(is.oneOf("model", "target")),
  providerCalls: pattern,
  thinking: required(is.oneOf("none", "own", "plain", "required")),
  callId: required(pattern),
  uniqueCallIds: required(is.flag),
  toolName: required(pattern),
  system: required(is.oneOf("anywhere", "between", "leading")),
  ending: required(is.oneOf("any", "prefill", "user")),
  callsFollowUser: required(is.flag),
  afterResults: Kind.name,
  alternates: required(is.flag),
  unsignedCall: Kind.object("{ namespace, field, value }", {
    namespace: required(Kind.name),
    field: required(Kind.name),
    value: required(Kind.name)
  }),
  files: Kind.names,
  linkedFiles: Kind.names,
  assistantFiles: required(is.flag)
}
