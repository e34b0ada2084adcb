/**
 * Validates a `RecoveryPolicy`: a check for each field, and a row for each class that its `classOf` returns.
 *
 * `classOf` is a function, so neither the types nor the checks know all of its classes. Validation calls it with one
 * failure of each reason. A missing row of any other class is found when such a failure occurs ({@link missingRow}).
 */
import type { CircuitBreaker, RetryBudgetState } from "@outlast/resilience"
import { Backoff, CircuitPolicy, InvalidOption, RetryBudgetState as Budget } from "@outlast/resilience"
import { Options } from "@outlast/resilience"
import * as Wording from "../../conversation/Wording.ts"
import type { FailoverReason } from "../../failure/reasons/FailoverReason.ts"
import { definitions, reasonTags } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import * as Kind from "../../options/Kind.ts"
import * as Nudge from "../../recovery/Nudge.ts"
import * as Truncation from "../../recovery/Truncation.ts"
import * as Notice from "./Notice.ts"
import type {
  CooldownRule,
  Hedge,
  Limits,
  OutputRoom,
  Pacing,
  ProbeRule,
  RecoveryPolicy,
  Row,
  SlowStream
} from "./PolicyModel.ts"

const { is } = Options
const { required } = is

const module = "RecoveryPolicy"

// -----------------------------------------------------------------------------
// Fields
// -----------------------------------------------------------------------------

export const midStream: Options.Check = is.oneOf("continue", "fail", "restart")

const initial: Options.Check = (module, field, value) => {
  if (value !== "forever") Kind.duration()(module, field, value)
}

const to: Options.Check = (module, field, value) => {
  if (Array.isArray(value)) Kind.names(module, field, value)
  else {
    const isWord = value === "next" || value === "other-model" || value === "other-dialect"
    const kind = '"next" or "other-model" or "other-dialect" or a list of models'
    Options.check(isWord, module, field, value, kind)
  }
}

export const scope: Options.Check = is.oneOf("key", "key+model", "model", "endpoint")

const cooldown = Kind.object<CooldownRule>(
  'a cooldown, for example RecoveryPolicy.steady("model", "1 minute")',
  {
    scope: required(scope),
    initial: required(initial),
    factor: required(is.number({ min: 1 })),
    cap: required(Kind.duration()),
    retryAfter: required(is.oneOf("minimum", "wins", "not-before", "ignored")),
    proof: is.oneOf("one-call", "several-calls"),
    byWords: is.duration(),
    trusted: is.duration(),
    looks: Kind.positiveDuration
  }
)

const row = Kind.object<Row>("a row, for example { ...RecoveryPolicy.base, attempts: 3 }", {
  then: required(is.oneOf("retry", "move", "grow", "stop")),
  attempts: required(Kind.count),
  pool: required(is.oneOf("shared", "own")),
  repeatsBeforeEquivalent: required(Kind.countOrNone),
  switchAfter: Kind.count,
  to: required(to),
  targets: Kind.count,
  backoff: required(Kind.backoff),
  retryAfter: required(is.oneOf(...Backoff.hints)),
  cooldown,
  circuit: is.oneOf("endpoint", "model"),
  worthWaiting: required(is.flag),
  nudge: Nudge.check,
  midStream
})

/** Accepts `undefined`. A row is missing only if `classOf` returns its class. */
const isRow: Options.Check = (module, field, value) => {
  if (value !== undefined) row(module, field, value)
}

const probe = Kind.object<ProbeRule>("false, or { share, atMost }", {
  share: required(is.share),
  atMost: required(Kind.duration())
})

const slow = Kind.object<SlowStream>("{ charactersPerSecond, over }", {
  charactersPerSecond: required(Kind.where((n) => typeof n === "number" && n > 0, "a number above 0")),
  over: required(Kind.positiveDuration)
})

const limits = Kind.object<Limits>("time limits, for example { ...Policy.interactive.limits, idle }", {
  connect: required(Kind.positiveDuration),
  firstToken: required(Kind.positiveDuration),
  firstTokenReasoning: required(Kind.positiveDuration),
  idle: required(Kind.positiveDuration),
  idleReasoning: required(Kind.positiveDuration),
  total: required(Kind.positiveDuration),
  slow
})

const hedge = Kind.object<Hedge>(
  "false, or a hedge, for example { ...Policy.interactive.hedge, atMost: 0.1 }",
  {
    after: required(Kind.positiveDuration),
    afterLook: required(Kind.positiveDuration),
    atMost: required(is.share),
    reserve: required(Kind.countOrNone),
    thinking: is.flag
  }
)

const outputRoom = Kind.object<OutputRoom>("{ margin, least }", {
  margin: required(Kind.countOrNone),
  least: required(Kind.count)
})

const pacing = Kind.object<Pacing>("a pacing, for example { ...Policy.interactive.pacing, hopesFor }", {
  worksFor: required(Kind.duration()),
  hopesFor: required(Kind.duration()),
  releaseEvery: required(Kind.positiveDuration),
  savedSuccesses: required(Kind.countOrNone),
  leastWait: required(Kind.positiveDuration),
  lookEvery: required(Kind.positiveDuration),
  provenBy: required(Kind.count),
  downAfter: required(Kind.count),
  trustedFor: required(Kind.duration()),
  forgetAfter: required(Kind.duration())
})

/** `CircuitBreaker.make` checks these options again, but its error names another module. */
const circuits = Kind.plain(
  "false, or options of CircuitBreaker.make",
  Kind.nested((options) => {
    const { trip, halfOpen, open, restart, maxRetryAfter } = options as CircuitBreaker.Options
    CircuitPolicy.make({ trip, halfOpen, open, restart, maxRetryAfter })
  })
)

const retryBudget = Kind.plain(
  "false, or options of RetryBudget.make",
  Kind.nested((options) => void Budget.rule(options as RetryBudgetState.RetryBudgetOptions))
)

const checks: Options.Checks<RecoveryPolicy<string>> = {
  classOf: required(is.fn("(failure) => class")),
  rows: required(is.record(isRow, "an object with a row for each class")),
  maxAttempts: required(Kind.count),
  deadline: required(is.seconds(Kind.duration())),
  maxWait: required(Kind.duration()),
  patience: required(Kind.duration()),
  shortWait: required(Kind.duration()),
  retryAfterJitter: required(is.share),
  maxCost: Kind.dollars,
  counters: required(is.oneOf("call", "target")),
  maxCompactions: required(Kind.countOrNone),
  compactionsPer: is.oneOf("call", "target"),
  circuits: required(Kind.orFalse(circuits)),
  probe: required(Kind.orFalse(probe)),
  retryBudget: required(Kind.orFalse(retryBudget)),
  whenAllOut: required(is.oneOf("wait", "probe", "fail")),
  lastResort: required(is.flag),
  sharedBackoff: required(is.flag),
  midStream: required(midStream),
  truncation: required(
    Kind.orFalse(Kind.object("false, or a truncation, for example Truncation.defaults", Truncation.checks))
  ),
  nudges: required(Kind.object("nudges, for example Nudge.defaults", Nudge.checks)),
  notices: required(Kind.object("notices, for example Notice.defaults", Notice.checks)),
  wording: Kind.object("a wording, for example Wording.defaults", Wording.checks),
  limits: required(limits),
  hedge: required(Kind.orFalse(hedge)),
  outputRoom: required(outputRoom),
  pacing: required(pacing),
  heartbeat: Kind.positiveDuration
}

// -----------------------------------------------------------------------------
// Classes
// -----------------------------------------------------------------------------

/** One failure of each reason and of each of its kinds. */
const samples: ReadonlyArray<ProviderFailure> = reasonTags
  .flatMap((tag): ReadonlyArray<FailoverReason> => definitions[tag].samples)
  .map((reason) =>
    local("policy/sample", reason, {
      id: "provider/model",
      provider: "provider",
      model: "model",
      endpoint: "",
      key: ""
    })
  )

/** Builds the error for a class without a row. */
export const missingRow = (of: unknown, { reason: { _tag: reason } }: ProviderFailure): InvalidOption =>
  typeof of === "string"
    ? new InvalidOption(
        module,
        `rows.${of}`,
        undefined,
        "a row",
        `${module}: rows.${of} is missing (classOf gives "${of}" for ${reason})`
      )
    : new InvalidOption(
        module,
        "classOf",
        undefined,
        "a class",
        `${module}: classOf must give the name of a row, and gives ${String(of)} for ${reason}`
      )

/** Returns `undefined` when `classOf` throws: a sample may lack a field that it reads. */
const sampled = (
  policy: RecoveryPolicy<string>,
  failure: ProviderFailure
): { readonly of: unknown } | undefined => {
  try {
    return { of: policy.classOf(failure) }
  } catch {
    return undefined
  }
}

// -----------------------------------------------------------------------------
// All of it
// -----------------------------------------------------------------------------

/**
 * Throws an `InvalidOption` (a `RangeError`) that names the field. `knowsAll`: the samples show every class of
 * `classOf`, so a row of another class is rejected, because it would never be used.
 */
export const validate = (policy: RecoveryPolicy<string>, knowsAll: boolean): void => {
  Options.fields(module, policy, checks)
  for (const [name, row] of Object.entries<Row | undefined>(policy.rows)) {
    const cooldown = row?.cooldown
    if (cooldown === undefined || cooldown.initial === "forever") continue
    is.duration({ min: cooldown.initial, max: "Infinity" })(module, `rows.${name}.cooldown.cap`, cooldown.cap)
  }
  const classes = new Set<unknown>()
  for (const failure of samples) {
    const found = sampled(policy, failure)
    if (found !== undefined && !isClass(policy, found.of)) throw missingRow(found.of, failure)
    classes.add(found?.of)
  }
  const unused = Object.keys(policy.rows).find((name) => !classes.has(name))
  if (!knowsAll || unused === undefined) return
  const field = `rows.${unused}`
  const allowed = [...classes].join(", ")
  const message = `${module}: ${field} is of no class that classOf gives. Classes: ${allowed}`
  throw new InvalidOption(module, field, undefined, allowed, message)
}

/** Throws an `InvalidOption` for a row whose `to` names a model that the chain does not have. */
export const validateModels = (policy: RecoveryPolicy<string>, models: ReadonlyArray<string>): void => {
  for (const [name, row] of Object.entries<Row | undefined>(policy.rows)) {
    if (row === undefined || typeof row.to === "string") continue
    const known = [...new Set(models)]
    row.to.forEach((model, i) => Options.oneOf(module, `rows.${name}.to[${i}]`, model, known))
  }
}

/** True for a class that has a row. */
export const isClass = (policy: RecoveryPolicy<string>, of: unknown): of is string =>
  typeof of === "string" && Object.hasOwn(policy.rows, of) && policy.rows[of] !== undefined
