/** Limits of the Claude models, as far as reports agree. A model that is not listed has no rules. */
export interface ModelRules {
  /** Maximum `max_tokens`. */
  readonly maxOutput: number
  readonly thinking: ReadonlyArray<"enabled" | "adaptive" | "between_tools">
  /** Tells if thinking may be disabled. `effort`: only with an effort of at most `high`. */
  readonly disabled: "yes" | "effort" | "no"
  readonly forcedTools: boolean
  /** Tells if `temperature`, `top_p` and `top_k` may be set. `one`: not `temperature` together with `top_p`. */
  readonly sampling: "yes" | "one" | "no"
  /** True when the last message may be the assistant's. */
  readonly prefill: boolean
  /** True when a message may have the role `system`. */
  readonly system: boolean
  /** True when thinking blocks are bound to everything before them. */
  readonly bound: boolean
  /** True when thinking blocks are bound to the account that made them. */
  readonly accountBound: boolean
}

const claude45: ModelRules = {
  maxOutput: 64_000,
  thinking: ["enabled"],
  disabled: "yes",
  forcedTools: true,
  sampling: "one",
  prefill: true,
  system: false,
  bound: false,
  accountBound: false
}
const claude46: ModelRules = {
  ...claude45,
  maxOutput: 128_000,
  thinking: ["adaptive", "enabled"],
  sampling: "yes",
  prefill: false
}
const claude47: ModelRules = { ...claude46, thinking: ["adaptive"], sampling: "no" }
const claude48: ModelRules = { ...claude47, system: true }
const opus5: ModelRules = { ...claude48, disabled: "effort" }
const haiku55: ModelRules = { ...opus5, bound: true, accountBound: true }
const opus55: ModelRules = { ...opus5, bound: true, disabled: "no", forcedTools: false }
const sonnet55: ModelRules = { ...opus55, thinking: ["adaptive", "between_tools"], accountBound: true }

const rules: Readonly<Record<string, ModelRules | undefined>> = {
  "sonnet-4-5": claude45,
  "opus-4-5": claude45,
  "haiku-4-5": claude45,
  "sonnet-4-6": claude46,
  "opus-4-6": claude46,
  "opus-4-7": claude47,
  "opus-4-8": claude48,
  // Reports disagree about system messages in this model.
  "sonnet-5": claude48,
  "opus-5": opus5,
  "haiku-5-5": haiku55,
  "opus-5-5": opus55,
  "fable-5-1": opus55,
  "fable-5-2": opus55,
  "mythos-5-1": opus55,
  "mythos-5-2": opus55,
  "sonnet-5-5": sonnet55
}

/** Returns the rules of a model such as `claude-opus-5-5`, with or without a date suffix. */
export const rulesOf = (model: string): ModelRules | undefined =>
  rules[/^claude-(.+?)(?:-\d{8})?$/.exec(model)?.[1] ?? ""]
