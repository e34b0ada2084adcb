/**
 * What a model takes of a conversation, as data: the rules of its wire format and its own habits.
 *
 * {@link defaults} is what a model of which nothing is known gets: a conversation that every known one accepts.
 *
 * **Example** (A server that takes system messages everywhere)
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
   * The name of the wire format, for example `anthropic-messages`. A request that one server refuses as malformed, others
   * of the same format refuse, too. Default: each provider has its own.
   */
  readonly format?: string | undefined
  /** The namespaces of part options from which the target reads what it has signed, encrypted or stored. */
  readonly namespaces: ReadonlyArray<string>
  /**
   * Who understands what a target has signed: every key and endpoint of the same provider and model, or only the
   * target itself, because it is bound to an organisation.
   */
  readonly bound: "model" | "target"
  /**
   * The ids of calls of tools that the target runs itself. They say whose a call is that comes from a history without
   * anything else that tells. Default: none.
   */
  readonly providerCalls?: RegExp | undefined
  /**
   * The thinking that it takes in the messages of the assistant:
   * - `none`: it refuses all
   * - `own`: what it has made itself
   * - `plain`: that, and thinking that nobody has signed
   * - `required`: as `plain`, and a message with tool calls must have some: a placeholder stands where it has none
   */
  readonly thinking: "none" | "own" | "plain" | "required"
  /** The ids of tool calls that it takes. What does not match becomes `call_` and 32 characters of `[a-zA-Z0-9_-]` at most. */
  readonly callId: RegExp
  /** An id stands for one call of the whole conversation. */
  readonly uniqueCallIds: boolean
  /** The names of tools that it takes in calls. What does not match is rewritten. */
  readonly toolName: RegExp
  /** System messages: everywhere, between the user and the assistant or at the end, or only at the beginning. */
  readonly system: "anywhere" | "between" | "leading"
  /** The last message: anybody's, the user's or a beginning of the answer, or only the user's. */
  readonly ending: "any" | "prefill" | "user"
  /** A message with tool calls stands directly behind one of the user, or behind results. */
  readonly callsFollowUser: boolean
  /** Messages of one role in a row are refused, and so is a conversation that begins with the assistant. */
  readonly alternates: boolean
  /** Stands in the options of the first call of a message whose signature is not there. */
  readonly unsignedCall:
    | { readonly namespace: string; readonly field: string; readonly value: string }
    | undefined
  /** Media types of files that it reads, as beginnings (`image/`); `undefined` for all. */
  readonly files: ReadonlyArray<string> | undefined
  /** Of these, those that may stand behind a URL; `undefined` for all. */
  readonly linkedFiles: ReadonlyArray<string> | undefined
  /** Takes back files that a model made. */
  readonly assistantFiles: boolean
}

/** Accepted by all. */
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
  // What a user attaches is not taken away on a guess.
  files: undefined,
  linkedFiles: undefined,
  assistantFiles: false
}

const pattern = Kind.where((value) => value instanceof RegExp, "a RegExp")

/** The checks of its fields. */
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
