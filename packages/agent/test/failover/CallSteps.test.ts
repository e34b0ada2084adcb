/**
 * `CallState` step by step: calls whose attempts end as a test says, and the actions that follow.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as Log from "#agent/failover/decide/CallLog"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Delays from "#agent/failover/decide/Delays"
import * as RecoveryPolicy from "#agent/failover/decide/RecoveryPolicy"
import * as Remedy from "#agent/failover/decide/Remedy"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"
import { isSending } from "#agent/failover/decide/Sending"
import type { TargetRef } from "#agent/conversation/TargetRef"
import { ProviderFailure, wrongObject } from "#agent/failure/reasons/ProviderFailure"
import * as Truncation from "#agent/recovery/Truncation"
import type { Entry, Turn, World } from "./callWorld.ts"
import { isWorking, timeLeft } from "#agent/failover/decide/CallLimits"
import { calm, failed, ordinary, play, viewsOf } from "./callWorld.ts"

// -----------------------------------------------------------------------------
// A call and its steps
// -----------------------------------------------------------------------------

/** A policy without jitter, with nudges that show their arguments. */
const exact: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  nudges: {
    cut: ({ attempt }) => `cut ${attempt}`,
    cutInToolCall: ({ attempt }) => `cut in tool call ${attempt}`,
    interrupted: ({ attempt, reason }) => `interrupted by ${reason} ${attempt}`,
    wrongObject: ({ attempt }) => `wrong object ${attempt}`
  }
}

type Rows = { readonly [C in RecoveryPolicy.DefaultClass]?: Partial<RecoveryPolicy.Row> }

interface Setting {
  readonly policy?: Partial<RecoveryPolicy.RecoveryPolicy>
  readonly rows?: Rows
  readonly views?: World["views"]
  readonly around?: Partial<World["around"]>
  readonly call?: Partial<CallState.CallFacts>
}

/** Three attempts and a minute, so that the expected steps stay short. */
const short: RecoveryPolicy.RecoveryPolicy["rows"] = {
  ...exact.rows,
  ServerError: {
    ...exact.rows.ServerError,
    attempts: 3,
    cooldown: exact.rows.ServerError.cooldown && {
      ...exact.rows.ServerError.cooldown,
      initial: Duration.seconds(30),
      looks: Duration.seconds(30)
    }
  },
  RateLimit: {
    ...exact.rows.RateLimit,
    cooldown: exact.rows.RateLimit.cooldown && {
      ...exact.rows.RateLimit.cooldown,
      initial: Duration.minutes(1)
    }
  }
}

const changed = (rows: Rows): RecoveryPolicy.RecoveryPolicy["rows"] =>
  // Object.entries forgets the key type; the keys are those of the rows.
  Object.fromEntries(
    Object.entries(short).map(([name, row]) => [name, { ...row, ...rows[name as keyof Rows] }])
  ) as RecoveryPolicy.RecoveryPolicy["rows"]

const entriesOf = (turns: ReadonlyArray<Turn>, setting: Setting): ReadonlyArray<Entry> => {
  const { policy, rows = {}, views = viewsOf("m1", "m2"), around, call } = setting
  const facts = { ...ordinary, ...around, call: { ...ordinary.call, ...call } }
  return play({ ...exact, rows: changed(rows), ...policy }, views, facts, turns).entries
}

const told = ({ action, snapshot: { now } }: Entry): string => {
  const words: Array<string> = [action._tag]
  const say = (is: boolean, word: string) => void (is && words.push(word))
  if ("target" in action) words.push(action.target.id)
  if (action._tag === "Wait") {
    const what = action.forBudget ? "the budget" : action.soonest.target.id
    words.push(`${action.until - now} for ${what}`)
  }
  if (action._tag === "GiveUp")
    words.push(action.failure._tag === "ProviderFailure" ? action.failure.reason._tag : action.failure._tag)
  if (isSending(action)) {
    say(action.delay > 0, `+${action.delay}`)
    if ("limit" in action) words.push(`to ${action.limit}`)
    if (action._tag === "Continue" && action.raisedTo !== undefined) words.push(`to ${action.raisedTo}`)
    say("rewind" in action && action.rewind, "rewind")
    if ("nudge" in action && action.nudge !== undefined) words.push(`"${action.nudge}"`)
    say(action.probe, "probe")
    say(action.lastResort, "last resort")
    say(action.isFree, "free")
  }
  if (action.cooldown !== undefined)
    words.push(`(${action.cooldown.scope} cools ${action.cooldown.until - now})`)
  return words.join(" ")
}

/** Defines a test: the actions of a call whose attempts, compactions and other steps end as `turns` say. */
const does = (title: string, turns: ReadonlyArray<Turn>, expected: string, setting: Setting = {}): void => {
  it(title, () => {
    const entries = entriesOf(turns, setting)
    assert.strictEqual(entries.map(told).join("; "), expected)
    const last = entries.at(-1) ?? assert.fail()
    assert.strictEqual(last.after.made.spent, last.books.spent)
  })
}

const fails = (reason: FailoverReason.FailoverReason, more: Partial<Turn> = {}): Turn => ({
  ...calm,
  failure: failed(reason),
  ...more
})
/** Like `fails`, with a wait that the server named, in milliseconds. */
const failsFor = (
  reason: FailoverReason.FailoverReason,
  retryAfter: number,
  more: Partial<Turn> = {}
): Turn => ({
  ...calm,
  failure: failed(reason, retryAfter),
  ...more
})
const failedWith = (evidence: Partial<ProviderFailure["evidence"]>): ProviderFailure =>
  new ProviderFailure({
    reason: new FailoverReason.ServerError(),
    evidence: { rule: "test", signal: "local", depth: 0, ...evidence },
    detail: ""
  })
const cut = (more: Partial<Turn> = {}): Turn => ({ ...calm, outcome: "cut", gain: 1_000, ...more })
/** A circuit refuses the attempt. */
const refused = (more: Partial<Turn> = {}): Turn => ({
  ...calm,
  outcome: "kept away",
  inToolCall: true,
  ...more
})
/** A failure that ends any call. */
const cancelled = fails(new FailoverReason.Cancelled())

const server = new FailoverReason.ServerError()
const network = new FailoverReason.Network()
const limited = new FailoverReason.RateLimit()
const silent = new FailoverReason.Timeout({ phase: "total", local: true })
const invalidKey = new FailoverReason.Auth({ permanent: false })
const gibberish = new FailoverReason.Format({ side: "response" })
const malformed = new FailoverReason.Format({ side: "request" })
const media = new FailoverReason.Format({ side: "request", media: true })
const tooLong = (limit?: number) => new FailoverReason.ContextOverflow(limit === undefined ? {} : { limit })
const refusal = new FailoverReason.ContentPolicy()
const outputAbove = (outputLimit: number) => new FailoverReason.Format({ side: "request", outputLimit })

/** Views of one model with several keys. */
const keysOf = (...keys: ReadonlyArray<string>): World["views"] =>
  keys.map((key) => ({
    ref: { id: key, provider: "p", model: "m", endpoint: "e", key },
    info: {},
    renewable: false
  }))
const withInfo = (views: World["views"], ...infos: ReadonlyArray<CallState.TargetView["info"]>) =>
  views.map((view, i) => ({ ...view, info: infos[i] ?? {} }))
const renewable = (views: World["views"]) => views.map((view) => ({ ...view, renewable: true }))
const ms = Duration.millis
/** Every failure leaves the target, and none lets it cool. */
const leavesAtOnce: Rows = {
  ServerError: { switchAfter: 1, attempts: 9, cooldown: undefined, repeatsBeforeEquivalent: 0 }
}
const from4000 = { outputLimit: { start: 4_000, max: Infinity } }

// -----------------------------------------------------------------------------

describe("repeating or leaving a target", () => {
  does(
    "repeats within the patience, then leaves",
    [fails(server), fails(server), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; Switch m2 (model cools 30000); GiveUp Cancelled"
  )
  does(
    "counts failed attempts against the patience, to its very end",
    [fails(server, { elapsed: 4_000 }), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m2 (model cools 30000); GiveUp Cancelled"
  )
  does(
    "leaves where a repeat would end after the patience",
    [fails(server, { elapsed: 4_001 }), cancelled],
    "Attempt m1 free; Switch m2 (model cools 30000); GiveUp Cancelled"
  )
  does(
    "leaves after so many failures of one class in a row",
    [fails(server), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m2 (model cools 30000); GiveUp Cancelled",
    { rows: { ServerError: { switchAfter: 2 } } }
  )
  does(
    "does not count a failure of another target among those in a row",
    [fails(server), fails(server), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m2; Attempt m2 +1000; GiveUp Cancelled",
    { rows: { ServerError: { switchAfter: 2, cooldown: undefined } }, policy: { patience: ms(60_000) } }
  )
  does(
    "begins to count in a row at a failure of another class",
    [fails(server), fails(network), fails(server), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; Attempt m1 +4000; Switch m2 (model cools 30000); GiveUp Cancelled",
    {
      rows: { ServerError: { switchAfter: 2, attempts: 9 }, Network: { switchAfter: 2, attempts: 9 } },
      policy: { patience: ms(60_000) }
    }
  )
  does(
    "begins to count in a row behind a cut answer",
    [fails(server), cut(), fails(server), cancelled],
    'Attempt m1 free; Attempt m1 +1000; Continue m1 "cut 3" free; Continue m2 "interrupted by ServerError 4" free (model cools 30000); Deliver',
    { rows: { ServerError: { switchAfter: 2 } } }
  )
  does(
    "repeats so often before an equivalent target is preferred",
    [fails(server)],
    "Attempt a free; Attempt a +1000; Attempt a +2000; Switch b; Attempt b +1000; Attempt b +2000; GiveUp AllTargetsOut",
    { views: keysOf("a", "b"), rows: { ServerError: { repeatsBeforeEquivalent: 2 } } }
  )
  does(
    "prefers an equivalent target to a repeat beyond the patience",
    [fails(server), fails(server), cancelled],
    "Attempt a free; Attempt a +1000; Switch b; GiveUp Cancelled",
    {
      views: keysOf("a", "b"),
      rows: { ServerError: { repeatsBeforeEquivalent: 5 } },
      policy: { patience: ms(1_999) }
    }
  )
  does(
    "repeats as long as the patience beside an equivalent target",
    [fails(server), fails(server), cancelled],
    "Attempt a free; Attempt a +1000; Attempt a +2000; GiveUp Cancelled",
    {
      views: keysOf("a", "b"),
      rows: { ServerError: { repeatsBeforeEquivalent: 5 } },
      policy: { patience: ms(2_000) }
    }
  )
  does(
    "sleeps a short wait that the server named once, beside an equivalent target",
    [failsFor(limited, 2_000), failsFor(limited, 2_000), cancelled],
    "Attempt a free; Attempt a +2000 free (key+model cools 2000); Switch b free (key+model cools 2000); GiveUp Cancelled",
    { views: keysOf("a", "b") }
  )
  does(
    "does not sleep a short wait after a switch",
    [fails(limited), failsFor(limited, 2_000), cancelled],
    "Attempt a free; Switch b free (key+model cools 60000); Switch c free (key+model cools 2000); GiveUp Cancelled",
    { views: keysOf("a", "b", "c") }
  )
  does(
    "does not sleep a longer wait beside an equivalent target",
    [failsFor(limited, 2_001), cancelled],
    "Attempt a free; Switch b free (key+model cools 2001); GiveUp Cancelled",
    { views: keysOf("a", "b") }
  )
  does(
    "does not sleep a backoff that is longer than a short wait",
    [failsFor(limited, 500), cancelled],
    "Attempt a free; Switch b free (key+model cools 500); GiveUp Cancelled",
    { views: keysOf("a", "b"), policy: { shortWait: ms(999) } }
  )
  does(
    "prefers an equivalent target to another model",
    [fails(limited), cancelled],
    "Attempt a free; Switch b free (key+model cools 60000); GiveUp Cancelled",
    { views: [...keysOf("a"), ...viewsOf("m1"), ...keysOf("b")] }
  )
  does(
    "skips targets that the cooldown of the failure covers",
    [fails(invalidKey), cancelled],
    "Attempt m1 free; Switch m3 free (key cools 600000); GiveUp Cancelled",
    {
      views: ["m1", "m2", "m3"].map((model) => ({
        ref: { id: model, provider: "p", model, endpoint: "e", key: model === "m3" ? "k2" : "k1" },
        info: {},
        renewable: false
      }))
    }
  )
  does(
    "asks elsewhere first where one failure proves nothing for other calls",
    [fails(server, { works: false }), cancelled],
    "Attempt a free; Switch m1; GiveUp Cancelled",
    { views: [...keysOf("a", "b"), ...viewsOf("m1")], rows: { ServerError: { attempts: 1 } } }
  )
  does(
    "asks an equivalent target where there is nothing else",
    [fails(server, { works: false }), cancelled],
    "Attempt a free; Switch b; GiveUp Cancelled",
    { views: keysOf("a", "b"), rows: { ServerError: { attempts: 1 } } }
  )
  does(
    "asks an equivalent target where the row allows no other",
    [fails(server, { works: false }), cancelled],
    "Attempt a free; Switch b; GiveUp Cancelled",
    { views: [...keysOf("a", "b"), ...viewsOf("m1")], rows: { ServerError: { attempts: 1, to: ["m"] } } }
  )
  does(
    "leaves a target that another call found out",
    [fails(server), fails(server, { other: [0, 1_001] }), cancelled],
    "Attempt m1 free; Switch m2; Attempt m2 +1000; GiveUp Cancelled",
    { policy: { patience: ms(60_000) } }
  )
  does(
    "repeats where the cooldown that another call opened ends in time",
    [fails(server), fails(server, { other: [0, 1_000] }), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; GiveUp Cancelled",
    { policy: { patience: ms(60_000) } }
  )
  does(
    "waits for a target that is back sooner than the repeat",
    [fails(server, { other: [1, 999] }), fails(server), cancelled],
    "Attempt m1 free; Wait 999 for m2; Attempt m1; GiveUp Cancelled"
  )
  does(
    "repeats where another target is back no sooner",
    [fails(server, { other: [1, 1_000] }), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; GiveUp Cancelled"
  )
  does(
    "repeats after the backoff where the server named a shorter wait",
    [failsFor(limited, 500), cancelled],
    "Attempt m1 free; Attempt m1 +1000 free (key+model cools 500); GiveUp Cancelled",
    { views: viewsOf("m1") }
  )
  does(
    "does not repeat after a longer wait than a server may name",
    [failsFor(limited, 60_001)],
    "Attempt m1 free; GiveUp AllTargetsOut (key+model cools 60001)",
    { views: viewsOf("m1") }
  )
  does(
    "repeats although a target is back sooner that the row does not allow",
    [fails(server, { other: [1, 900] }), fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; GiveUp Cancelled",
    { rows: { ServerError: { to: ["m3"] } } }
  )
  does(
    "goes to another model only, and gives up with the failure where there is none",
    [fails(server)],
    "Attempt a free; GiveUp ServerError",
    { rows: { ServerError: { to: "other-model", attempts: 1 } }, views: keysOf("a", "b") }
  )
  does(
    "waits for another model that is back in time",
    [fails(server, { other: [1, 30_000] }), fails(server), cancelled],
    "Attempt m1 free; Wait 30000 for m2; Switch m2; GiveUp Cancelled",
    { rows: { ServerError: { to: "other-model", attempts: 1 } } }
  )
  does(
    "never repeats where the row says move, whatever its attempts",
    [fails(server), cancelled],
    "Attempt m1 free; Switch m2 (model cools 30000); GiveUp Cancelled",
    { rows: { ServerError: { then: "move", attempts: 3 } } }
  )
  does(
    "does not repeat where the provider says that it is no use",
    [{ ...calm, failure: failedWith({ shouldRetry: false }) }, cancelled],
    "Attempt m1 free; Switch m2 (model cools 30000); GiveUp Cancelled"
  )
  does(
    "repeats where the provider says that it may help",
    [{ ...calm, failure: failedWith({ shouldRetry: true }) }, cancelled],
    "Attempt m1 free; Attempt m1 +1000; GiveUp Cancelled"
  )
  does(
    "counts the attempts of classes with a pool of their own each by itself",
    [fails(server), fails(network)],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +1000; Attempt m1 +2000; GiveUp AllTargetsOut",
    {
      rows: { ServerError: { pool: "own", attempts: 3 }, Network: { pool: "own", attempts: 2 } },
      views: viewsOf("m1")
    }
  )
  does(
    "does not wait for a target of another wire format",
    [fails(malformed), { ...calm, other: [1, 5_000] }],
    "Attempt m1 free; GiveUp Format",
    { views: viewsOf("m1", "m2").map((view, i) => ({ ...view, ref: { ...view.ref, provider: `p${i}` } })) }
  )
  does(
    "repeats after the backoff where a cooldown of another call ends sooner",
    [fails(server), fails(server, { other: [0, 999] }), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; GiveUp Cancelled",
    { views: viewsOf("m1") }
  )
  does(
    "asks every target once before it asks one again",
    [fails(server), fails(server), fails(server), cancelled],
    "Attempt m1 free; Switch m2; Switch m3; Switch m1 +1000; GiveUp Cancelled",
    { views: viewsOf("m1", "m2", "m3"), policy: { patience: ms(0) }, rows: leavesAtOnce }
  )
  does(
    "does not go back to a target where the backoff over all of them does not fit into the deadline",
    [fails(server)],
    "Attempt m1 free; Switch m2; GiveUp AllTargetsOut",
    { policy: { patience: ms(0), deadline: ms(999) }, rows: leavesAtOnce }
  )
  does(
    "asks every key of a model once before it asks one again",
    [fails(server), fails(server), cancelled],
    "Attempt a free; Switch b; Switch c; GiveUp Cancelled",
    { views: [...keysOf("a", "b", "c"), ...viewsOf("m1")], rows: leavesAtOnce }
  )
  does(
    "goes back to a key of the model within the patience, to its very end",
    [fails(server, { elapsed: 2_500 }), fails(server, { elapsed: 2_500 }), cancelled],
    "Attempt a free; Switch b; Switch a +1000; GiveUp Cancelled",
    { views: [...keysOf("a", "b"), ...viewsOf("m1")], rows: leavesAtOnce }
  )
  does(
    "asks another model after the patience instead of going back to a key",
    [fails(server, { elapsed: 2_500 }), fails(server, { elapsed: 2_501 }), cancelled],
    "Attempt a free; Switch b; Switch m1; GiveUp Cancelled",
    { views: [...keysOf("a", "b"), ...viewsOf("m1")], rows: leavesAtOnce }
  )
  does(
    "does not go back to a target that forbids a repeat",
    [{ ...calm, failure: failedWith({ shouldRetry: false }) }, fails(server), cancelled],
    "Attempt m1 free; Switch m2; Attempt m2 +1000; GiveUp Cancelled",
    { rows: leavesAtOnce }
  )
  does(
    "lets the target of the row cool when no other target is allowed",
    [fails(limited)],
    "Attempt a free; GiveUp RateLimit (key+model cools 60000)",
    { views: keysOf("a", "b"), rows: { RateLimit: { to: "other-model", attempts: 1 } } }
  )
  does(
    "repeats an answer that makes no sense twice, also after another failure",
    [fails(server), fails(gibberish), fails(gibberish), fails(gibberish)],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +1000; Attempt m1 +2000; GiveUp AllTargetsOut",
    { views: viewsOf("m1") }
  )
  for (const [phase, local] of [
    ["connect", true],
    ["first-token", false],
    ["total", true]
  ] as const) {
    does(
      `makes five attempts where the limit passes: ${phase}`,
      [fails(new FailoverReason.Timeout({ phase, local }))],
      "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; Attempt m1 +4000; Attempt m1 +8000; GiveUp AllTargetsOut",
      { views: viewsOf("m1") }
    )
  }
  does("gives up at once where the row says stop", [fails(server)], "Attempt m1 free; GiveUp ServerError", {
    rows: { ServerError: { then: "stop" } }
  })
  does(
    "ends after failures of the class at so many targets",
    [fails(server)],
    "Attempt m1 free; Switch m2 (model cools 30000); GiveUp ServerError (model cools 30000)",
    { rows: { ServerError: { attempts: 1, targets: 2 } }, views: viewsOf("m1", "m2", "m3") }
  )
  does(
    "sends the nudge of the row",
    [fails(server), cancelled],
    'Attempt m1 free; Attempt m1 +1000 "Again."; GiveUp Cancelled',
    { rows: { ServerError: { nudge: "Again." } } }
  )
  does(
    "asks for the object again in words",
    [{ ...calm, failure: failedWith({ rule: wrongObject }) }, cancelled],
    'Attempt m1 free; Attempt m1 +1000 "wrong object 2"; GiveUp Cancelled',
    { call: { structured: true } }
  )
})

describe("limits of a call", () => {
  does(
    "ends at its attempts",
    [fails(server)],
    "Attempt m1 free; Attempt m1 +1000; GiveUp ServerError (model cools 30000)",
    { policy: { maxAttempts: 2 } }
  )
  does(
    "does not count first attempts after refusals",
    [fails(limited)],
    "Attempt a free; Switch b free (key+model cools 60000); Switch c free (key+model cools 60000); Attempt c +1000; GiveUp RateLimit",
    { policy: { maxAttempts: 2 }, views: keysOf("a", "b", "c") }
  )
  does(
    "ends at exactly its cost",
    [fails(server, { cost: 1 })],
    "Attempt m1 free; Attempt m1 +1000; GiveUp ServerError (model cools 30000)",
    { policy: { maxCost: 2 } }
  )
  does(
    "counts what a cut answer costs",
    [cut({ cost: 1 })],
    'Attempt m1 free; Continue m1 "cut 2" free; Deliver',
    { policy: { maxCost: 2 } }
  )
  does(
    "repeats where the delay fits into what is left of the deadline",
    [fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; GiveUp Cancelled",
    { policy: { deadline: ms(1_000) } }
  )
  does(
    "does not repeat where the delay does not fit",
    [fails(server), cancelled],
    "Attempt m1 free; GiveUp AllTargetsOut",
    { policy: { deadline: ms(999) }, views: viewsOf("m1") }
  )
  does(
    "does not repeat beyond the time of the program",
    [fails(server), cancelled],
    "Attempt m1 free; GiveUp AllTargetsOut",
    { around: { deadline: 999 }, views: viewsOf("m1") }
  )
  does(
    "gives up when failed attempts have used up the deadline exactly",
    [fails(server, { elapsed: 120_000 })],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)"
  )
  does(
    "asks one other target behind a silence that used it up",
    [fails(silent, { elapsed: 120_000 })],
    "Attempt m1 free; Switch m2; GiveUp Timeout",
    { views: viewsOf("m1", "m2", "m3") }
  )
  does(
    "asks no other target where it was used up before",
    [fails(silent, { elapsed: 120_000 }), fails(silent, { commit: "text", elapsed: 1 })],
    "Attempt m1 free; Switch m2; GiveUp Timeout",
    { views: viewsOf("m1", "m2", "m3") }
  )
  does(
    "asks no other target behind a provider's own timeout",
    [fails(new FailoverReason.Timeout({ phase: "total", local: false }), { elapsed: 120_000 })],
    "Attempt m1 free; GiveUp Timeout (model cools 30000)"
  )
  does(
    "asks no other target when the time of the program is up",
    [fails(silent, { elapsed: 120_000 })],
    "Attempt m1 free; GiveUp Timeout",
    { around: { deadline: 120_000 } }
  )
  does(
    "gives up with the timeout where there is no other target",
    [fails(silent, { elapsed: 120_000 })],
    "Attempt m1 free; GiveUp Timeout",
    { views: viewsOf("m1") }
  )
  does(
    "does not go back to a target behind a silence that used up the time",
    [fails(server), fails(silent, { elapsed: 120_000 }), cancelled],
    "Attempt m1 free; Switch m2; Switch m3; GiveUp Cancelled",
    { rows: { ServerError: { switchAfter: 1, cooldown: undefined } }, views: viewsOf("m1", "m2", "m3") }
  )
  does(
    "goes back to no target behind a silence that used up the time, also where the row allows no other",
    [fails(server), fails(silent, { elapsed: 120_000 }), cancelled],
    "Attempt m1 free; Switch m2; GiveUp Timeout",
    { rows: { ...leavesAtOnce, TimeoutLocal: { to: ["m1"] } }, views: viewsOf("m1", "m2", "m3") }
  )
  does(
    "goes back to no target behind a silence that used up the time, also where no backoff holds",
    [fails(server), fails(silent, { elapsed: 120_000 }), cancelled],
    "Attempt m1 free; Switch m2; GiveUp Timeout",
    {
      rows: { ...leavesAtOnce, TimeoutLocal: { to: ["m1"], worthWaiting: false } },
      views: viewsOf("m1", "m2", "m3")
    }
  )
  does(
    "asks another target behind a silence where each may be asked once",
    [fails(silent, { elapsed: 120_000 }), cancelled],
    "Attempt m1 free; Switch m2; GiveUp Cancelled",
    { rows: { TimeoutLocal: { attempts: 1 } } }
  )
  does(
    "does not repeat a target that was asked when the next one refuses",
    [fails(silent, { elapsed: 120_000 }), refused({ inToolCall: false })],
    "Attempt m1 free; Switch m2; GiveUp AllTargetsOut"
  )
  does("does not begin when the time of the program is up", [calm], "GiveUp Timeout", {
    around: { deadline: 0 }
  })
  does("begins just before", [cancelled], "Attempt m1 free; GiveUp Cancelled", { around: { deadline: 1 } })
  does(
    "does not send behind a wait that ends with the time of the program",
    [failsFor(limited, 10_000), failsFor(limited, 10_000)],
    "Attempt m1 free; Switch m2 free (key+model cools 10000); Attempt m2 +10000 free (key+model cools 10000); GiveUp RateLimit (key+model cools 10000)",
    { around: { deadline: 10_000 } }
  )
  does(
    "time of an attempt that streamed text does not count",
    [fails(silent, { elapsed: 500_000, commit: "text" }), cancelled],
    'Attempt m1 free; Continue m1 +1000 "interrupted by Timeout 2" free; GiveUp Cancelled'
  )
})

describe("a wait that the server named", () => {
  const again = failsFor(limited, 1_000)
  does(
    "grows with the attempts of the call, whichever key they were made with",
    [again, again, again, again, again, again, cancelled],
    "Attempt a free; Switch b free (key+model cools 1000); Attempt b +1000 free (key+model cools 1000); Switch a free (key+model cools 1000); Attempt a +2000 free (key+model cools 1000); Switch b free (key+model cools 1000); Attempt b +4000 free (key+model cools 1000); GiveUp Cancelled",
    { views: keysOf("a", "b"), policy: { shortWait: ms(0) } }
  )
  does(
    "keeps the call from the target, although no cooldown does",
    [failsFor(server, 3_000), fails(server), cancelled],
    "Attempt m1 free; Switch m2; Attempt m2 +1000; GiveUp Cancelled",
    {
      policy: { patience: ms(0) },
      rows: { ServerError: { switchAfter: 1, attempts: 9, cooldown: undefined } }
    }
  )
  does(
    "keeps the call from the target, also when it is longer than a server may name",
    [failsFor(server, 60_001), fails(server), cancelled],
    "Attempt m1 free; Switch m2; Attempt m2 +1000; GiveUp Cancelled",
    { policy: { patience: ms(0) }, rows: leavesAtOnce }
  )
  does(
    "keeps no call from the target where the row ignores it",
    [failsFor(server, 3_000), fails(server), cancelled],
    "Attempt m1 free; Switch m2; Switch m1 +1000; GiveUp Cancelled",
    {
      policy: { patience: ms(0) },
      rows: { ServerError: { ...leavesAtOnce.ServerError, retryAfter: "ignored" } }
    }
  )
  does(
    "keeps the call from a key for longer with each attempt of the call at any key",
    [again, again, again, again, again, again, again, again, cancelled],
    "Attempt a free; Switch b free; Wait 1000 for a; Switch a free; Switch b free; Wait 2000 for a; Switch a free; Wait 2000 for b; Switch b free; GiveUp Cancelled",
    { views: keysOf("a", "b"), rows: { RateLimit: { then: "move", cooldown: undefined } } }
  )
  does(
    "of zero is kept once, then the backoff waits",
    [failsFor(server, 0)],
    "Attempt m1 free; Attempt m1; Attempt m1 +2000; Attempt m1 +4000; GiveUp AllTargetsOut",
    { views: viewsOf("m1"), rows: { ServerError: { attempts: 4 } } }
  )
  does(
    "of zero gives a key that refused twice back after its backoff, also where the call asks another key",
    [failsFor(server, 0)],
    "Attempt a free; Attempt a; Switch b; Attempt b; Attempt b +2000; Switch a; GiveUp AllTargetsOut",
    { views: keysOf("a", "b") }
  )
  does(
    "of zero is kept each time where it wins",
    [failsFor(server, 0)],
    "Attempt m1 free; Attempt m1; Attempt m1; GiveUp AllTargetsOut",
    { views: viewsOf("m1"), rows: { ServerError: { retryAfter: "wins" } } }
  )
  does(
    "is kept each time when it is not zero",
    [failsFor(server, 10_000)],
    "Attempt m1 free; Attempt m1 +10000 free; Attempt m1 +10000 free; GiveUp AllTargetsOut (model cools 10000)",
    { views: viewsOf("m1") }
  )
})

describe("the retry budget", () => {
  const budget = (tokens: number) => ({ around: { budget: tokens } })
  const three = viewsOf("m1", "m2", "m3")
  does(
    "empty, allows one switch and no repeat",
    [fails(server)],
    "Attempt m1 free; Switch m2 (model cools 30000); Wait 120000 for the budget (model cools 30000); GiveUp ServerError",
    { ...budget(0), views: three }
  )
  does(
    "empty, allows a switch to a target that was not asked",
    [fails(server), fails(server, { elapsed: 40_000 })],
    "Attempt m1 free; Switch m2; Wait 80000 for the budget; GiveUp ServerError",
    { ...budget(0), rows: { ServerError: { switchAfter: 1, cooldown: undefined } } }
  )
  does(
    "empty, allows no repeat where the switch was refused",
    [fails(server), refused({ inToolCall: false })],
    "Attempt m1 free; Switch m2; Wait 120000 for the budget; GiveUp ServerError",
    { ...budget(0), rows: { ServerError: { cooldown: undefined } } }
  )
  does(
    "empty, waits until the time that the server named, although the cooldown ends before",
    [failsFor(limited, 20_000, { elapsed: 10_000 }), { ...calm, other: [0, 5_000] }, cancelled],
    "Attempt m1 free; Wait 20000 for m1; Attempt m1 free; GiveUp Cancelled",
    {
      ...budget(0),
      views: viewsOf("m1"),
      rows: { RateLimit: { then: "move", attempts: 2, cooldown: undefined } }
    }
  )
  does(
    "empty, does not wait for a cooldown that ends before the time that the server named",
    [failsFor(limited, 20_000, { elapsed: 10_000 }), { ...calm, other: [0, 5_000] }, cancelled],
    "Attempt m1 free; Wait 110000 for the budget; GiveUp RateLimit",
    {
      ...budget(0),
      views: viewsOf("m1"),
      rows: { RateLimit: { then: "move", attempts: 2, cooldown: undefined, retryAfter: "ignored" } }
    }
  )
  does(
    "empty, waits for a target that was not asked, although the last failure forbids a repeat",
    [{ ...calm, failure: failedWith({ shouldRetry: false }) }],
    "Attempt m1 free; Switch m2; Wait 120000 for the budget; GiveUp ServerError",
    { ...budget(0), views: three, rows: { ServerError: { cooldown: undefined } } }
  )
  does(
    "empty, waits for a target that was not asked, although the last failure does not pass",
    [fails(new FailoverReason.Unknown())],
    "Attempt m1 free; Switch m2; Wait 120000 for the budget; GiveUp Unknown",
    { ...budget(0), views: three, rows: { Unknown: { cooldown: undefined } } }
  )
  does(
    "empty, waits for no target that the last failure does not allow",
    [fails(server)],
    "Attempt m1 free; Switch m2; GiveUp ServerError",
    { ...budget(0), views: three, rows: { ServerError: { attempts: 1, to: ["m2"], cooldown: undefined } } }
  )
  does(
    "empty, does not wait for the budget when the time is used up",
    [fails(server), fails(silent, { elapsed: 120_000 })],
    "Attempt m1 free; Switch m2; GiveUp Timeout",
    { ...budget(0), views: three, rows: leavesAtOnce }
  )
  does(
    "empty, allows a repeat after a wait that the server named",
    [failsFor(server, 1_000), cancelled],
    "Attempt m1 free; Attempt m1 +1000 free; GiveUp Cancelled",
    budget(0)
  )
  does(
    "empty, allows no repeat where the server says that it may come now",
    [failsFor(server, 0), cancelled],
    "Attempt m1 free; Switch m2 (model cools 30000); GiveUp Cancelled",
    { around: { budget: 0 } }
  )
  does(
    "empty, allows no repeat before the time that the server named",
    [failsFor(server, 1_500), cancelled],
    "Attempt m1 free; Switch m2 (model cools 1500); GiveUp Cancelled",
    { ...budget(0), rows: { ServerError: { retryAfter: "ignored" } } }
  )
  does(
    "empty, allows further targets after refusals, and one more switch",
    [fails(limited), fails(server)],
    "Attempt m1 free; Switch m2 free (key+model cools 60000); Switch m3 (model cools 30000); Switch m4 free (key+model cools 60000); Wait 120000 for the budget; GiveUp ServerError",
    { ...budget(0), views: viewsOf("m1", "m2", "m3", "m4") }
  )
  does(
    "empty, allows to go back when the wait is over that a server named",
    [failsFor(limited, 9_000), fails(server), calm, cancelled],
    "Attempt a free; Switch b free (key+model cools 9000); Wait 9000 for a; Switch a free; GiveUp Cancelled",
    { ...budget(0), views: keysOf("a", "b") }
  )
  does(
    "empty, does not wait for a target that no server named a time for",
    [fails(limited)],
    "Attempt m1 free; Switch m2 free (key+model cools 60000); GiveUp RateLimit",
    { ...budget(0), rows: { RateLimit: { attempts: 1 } } }
  )
  does(
    "empty, waits for the budget at most until the deadline",
    [{ ...calm, elapsed: 1_000 }],
    "Attempt m1 free; Wait 119000 for the budget; GiveUp ServerError",
    { ...budget(0), views: viewsOf("m1") }
  )
  for (const [what, setting] of [
    ["where no wait is worth it", { rows: { ServerError: { worthWaiting: false } } }],
    ["where the policy does not wait", { policy: { whenAllOut: "fail" } }],
    ["where its attempts are used up", { rows: { ServerError: { attempts: 1 } } }],
    ["where all its attempts are used up", { policy: { maxAttempts: 1 } }]
  ] as const satisfies ReadonlyArray<readonly [string, Setting]>) {
    does(
      `empty, does not wait for the budget ${what}`,
      [calm, { ...calm, answered: [0] }],
      "Attempt m1 free; GiveUp ServerError",
      { ...budget(0), views: viewsOf("m1"), ...setting }
    )
  }
  does(
    "empty, does not wait for the budget where the provider says that a repeat is no use",
    [
      { ...calm, failure: failedWith({ shouldRetry: false }) },
      { ...calm, answered: [0] }
    ],
    "Attempt m1 free; GiveUp ServerError",
    { ...budget(0), views: viewsOf("m1") }
  )
  does(
    "with two tokens, allows two repeats",
    [fails(server)],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; Switch m2 (model cools 30000); Wait 117000 for the budget; GiveUp ServerError",
    budget(2)
  )
  does(
    "empty, allows no new key",
    [fails(invalidKey), cancelled],
    "Attempt m1 free; Switch m2 free (key cools 600000); GiveUp Cancelled",
    { ...budget(0), views: renewable(viewsOf("m1", "m2")) }
  )
  does(
    "empty, continues a cut answer in place of a repeat",
    [cut(), cancelled],
    'Attempt m1 free; Continue m1 to 64000 "cut 2" free; Deliver',
    { ...budget(0), call: from4000 }
  )
  does(
    "empty, asks the last resort of a target that was not asked",
    [refused(), cancelled],
    "Attempt m1 free; Attempt m1 last resort free; GiveUp Cancelled",
    { ...budget(0), views: viewsOf("m1") }
  )
  does(
    "empty, does not ask a last resort again",
    [fails(server), refused()],
    "Attempt m1 free; Attempt m1 +1000; Wait 120000 for the budget; GiveUp ServerError",
    { ...budget(1), views: viewsOf("m1") }
  )
  does(
    "empty, does not probe",
    [fails(limited), fails(limited)],
    "Attempt m1 free; Switch m2 free (key+model cools 60000); GiveUp RateLimit",
    { ...budget(0), policy: { whenAllOut: "probe" }, rows: { RateLimit: { attempts: 2 } } }
  )
})

describe("when no target is ready", () => {
  does(
    "waits for the one that is back soonest",
    [fails(server, { elapsed: 4_500 }), fails(server), fails(server), fails(server), calm, cancelled],
    "Attempt m1 free; Switch m2 (model cools 30000); Attempt m2 +1000; Attempt m2 +2000; Wait 27000 for m1; Switch m1 probe; GiveUp Cancelled",
    { views: viewsOf("m1", "m2") }
  )
  does(
    "waits on until the deadline, for a second at least after as many waits as it may make attempts",
    [fails(limited, { other: [0, 10] })],
    "Wait 10 for m1; Wait 10 for m1; Wait 1000 for m1; Wait 1000 for m1; Wait 480 for m1; GiveUp AllTargetsOut",
    { policy: { maxAttempts: 2, deadline: ms(2_500) }, views: viewsOf("m1") }
  )
  does(
    "goes back to the target that is back first when it has asked all",
    [failsFor(limited, 50_000), failsFor(limited, 20_000), calm, cancelled],
    "Attempt m1 free; Switch m2 free (key+model cools 50000); Wait 20000 for m2 (key+model cools 20000); Attempt m2 free; GiveUp Cancelled",
    { rows: { RateLimit: { then: "move" } } }
  )
  does(
    "waits as long as the longest wait that a server may name",
    [failsFor(limited, 60_000), fails(server), calm, cancelled],
    "Attempt m1 free; Switch m2 free (key+model cools 60000); Wait 60000 for m1; Switch m1 free; GiveUp Cancelled",
    { rows: { ServerError: { attempts: 1 } } }
  )
  does(
    "does not wait for longer than that",
    [failsFor(limited, 60_001), fails(server)],
    "Attempt m1 free; Switch m2 free (key+model cools 60001); GiveUp AllTargetsOut",
    { rows: { ServerError: { attempts: 1 } } }
  )
  does(
    "waits for a longer cooldown of ours",
    [fails(limited), fails(server), calm, cancelled],
    "Attempt m1 free; Switch m2 free (key+model cools 90000); Wait 90000 for m1; Switch m1; GiveUp Cancelled",
    {
      rows: {
        ServerError: { attempts: 1 },
        RateLimit: { cooldown: RecoveryPolicy.steady("key+model", "90 seconds") }
      },
      policy: { patience: ms(0) }
    }
  )
  does(
    "waits to the very end of the deadline",
    [fails(server, { other: [0, 5_000] }), cancelled],
    "Wait 5000 for m1; Attempt m1 free; GiveUp Cancelled",
    { policy: { deadline: ms(5_000) }, views: viewsOf("m1") }
  )
  does(
    "goes back to a target behind a wait that took the rest of the deadline",
    [failsFor(limited, 10_000), fails(server), calm, cancelled],
    "Attempt m1 free; Switch m2 free (key+model cools 10000); Wait 10000 for m1; Switch m1 free; GiveUp Cancelled",
    { policy: { deadline: ms(10_000) }, rows: { ServerError: { attempts: 1 } } }
  )
  does("does not wait beyond it", [fails(server, { other: [0, 5_001] }), cancelled], "GiveUp AllTargetsOut", {
    policy: { deadline: ms(5_000) },
    views: viewsOf("m1")
  })
  does(
    "fails where the policy says so",
    [fails(server, { elapsed: 4_500 }), fails(server), fails(server), fails(server)],
    "Attempt m1 free; Switch m2 (model cools 30000); Attempt m2 +1000; Attempt m2 +2000; GiveUp AllTargetsOut",
    { policy: { whenAllOut: "fail" } }
  )
  does(
    "probes the one that is back soonest once each, then waits",
    [
      fails(server, { other: [0, 30_000] }),
      fails(server, { other: [1, 40_000] }),
      fails(server),
      calm,
      cancelled
    ],
    "Attempt m2 free; Switch m1 probe; Wait 30000 for m1; Attempt m1; Switch m2 +2000 probe; GiveUp Cancelled",
    { policy: { whenAllOut: "probe" }, rows: { ServerError: { cooldown: undefined } } }
  )
  does(
    "probes a target once in a call",
    [fails(server, { other: [0, 30_000] }), fails(server), { ...calm, other: [0, 20_000] }, cancelled],
    "Attempt m1 probe free; Wait 30000 for m1; Wait 20000 for m1; Attempt m1; GiveUp Cancelled",
    { policy: { whenAllOut: "probe" }, views: viewsOf("m1") }
  )
  does(
    "goes back to where it was when it is ready first",
    [fails(server, { other: [1, 40_000] }), fails(server, { other: [0, 5_000] }), calm, cancelled],
    "Attempt m1 free; Wait 5000 for m1; Attempt m1; Attempt m1 +2000; GiveUp Cancelled",
    { rows: { ServerError: { to: ["m2"] } } }
  )
})

describe("a call that has used up its attempts", () => {
  const refuses = fails(server)
  does(
    "goes on at the target while it answers other calls, up to the attempts of a call",
    [{ ...refuses, answered: [0] }],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; Attempt m1 +4000; Attempt m1 +8000; GiveUp ServerError",
    { views: viewsOf("m1"), policy: { maxAttempts: 5 } }
  )
  does(
    "ends when the target answers no other call",
    [refuses],
    "Attempt m1 free; Attempt m1 +1000; Attempt m1 +2000; GiveUp AllTargetsOut",
    { views: viewsOf("m1"), policy: { maxAttempts: 5 } }
  )
})

describe("a refused permit", () => {
  does(
    "goes to the next target, then passes a circuit as the last resort",
    [refused({ refusal: 3_000 }), refused({ refusal: 5_000 }), fails(server), cancelled],
    "Attempt m1 free; Attempt m2 free; Attempt m1 last resort free; Attempt m1 +1000; GiveUp Cancelled"
  )
  does(
    "of a limit is waited for",
    [
      refused({ refusal: 3_000, inToolCall: false }),
      refused({ refusal: 5_000, inToolCall: false }),
      calm,
      cancelled
    ],
    "Attempt m1 free; Attempt m2 free; Wait 3000 for m1; Attempt m1 free; GiveUp Cancelled"
  )
  does(
    "of a last resort is waited for",
    [refused({ refusal: 3_000 })],
    "Attempt m1 free; Attempt m1 last resort free; Wait 3000 for m1; Attempt m1 last resort free; Wait 3000 for m1; Attempt m1 last resort free; GiveUp AllTargetsOut",
    { views: viewsOf("m1"), policy: { deadline: ms(7_000) } }
  )
  does(
    "makes no last resort when the time is up",
    [refused({ refusal: 3_000 })],
    "Attempt m1 free; GiveUp AllTargetsOut",
    { views: viewsOf("m1"), policy: { deadline: ms(0) } }
  )
  does(
    "makes no last resort where the policy has none",
    [refused({ refusal: 3_000 }), calm, cancelled],
    "Attempt m1 free; Wait 3000 for m1; Attempt m1 free; GiveUp Cancelled",
    { views: viewsOf("m1"), policy: { lastResort: false } }
  )
  does(
    "after a delay that was waited counts the delay",
    [fails(server), { ...refused({ refusal: 3_000 }), works: false }, cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m2; GiveUp Cancelled"
  )
  does(
    "that was foreseen takes the delay back",
    [fails(server), refused({ refusal: 3_000 }), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m2; GiveUp Cancelled"
  )
})

describe("remedies for a failure", () => {
  does(
    "a key is asked for anew once",
    [fails(invalidKey)],
    "Attempt m1 free; RenewKey m1; Attempt m1; Switch m2 free (key cools 600000); RenewKey m2; Attempt m2; GiveUp AllTargetsOut (key cools 600000)",
    { views: renewable(viewsOf("m1", "m2")) }
  )
  does(
    "a key that stays the same is left",
    [fails(invalidKey, { works: false })],
    "Attempt m1 free; RenewKey m1; Switch m2 free (key cools 600000); RenewKey m2; GiveUp AllTargetsOut (key cools 600000)",
    { views: renewable(viewsOf("m1", "m2")) }
  )
  does(
    "a key that cannot be asked for is left",
    [fails(invalidKey)],
    "Attempt m1 free; Switch m2 free (key cools 600000); GiveUp AllTargetsOut (key cools 600000)"
  )
  does(
    "a key is not asked for anew after another failure",
    [fails(server), cancelled],
    "Attempt m1 free; Attempt m1 +1000; GiveUp Cancelled",
    { views: renewable(viewsOf("m1")) }
  )
  does(
    "a key is not asked for anew where the row says stop",
    [fails(invalidKey)],
    "Attempt m1 free; GiveUp Auth",
    { views: renewable(viewsOf("m1", "m2")), rows: { Auth: { then: "stop" } } }
  )
  does(
    "the time that a key took may be all there was",
    [fails(invalidKey, { elapsed: 60_000 })],
    "Attempt m1 free; RenewKey m1; GiveUp Auth (key cools 600000)",
    { views: renewable(viewsOf("m1", "m2")), around: { deadline: 100_000 } }
  )
  does(
    "images are dropped once, then the call goes elsewhere",
    [fails(media)],
    "Attempt m1 free; LeaveOut m1; Attempt m1; Switch m2; LeaveOut m2; Attempt m2; GiveUp AllTargetsOut",
    { rows: { FormatRequest: { to: "next", targets: undefined } } }
  )
  does(
    "images are dropped, then thinking",
    [fails(new FailoverReason.Format({ side: "request", media: true, thinking: true }))],
    "Attempt m1 free; LeaveOut m1; Attempt m1; LeaveOut m1; Attempt m1; GiveUp AllTargetsOut",
    { views: viewsOf("m1"), rows: { FormatRequest: { to: "next", targets: undefined } } }
  )
  does(
    "images are dropped even where the row says stop, which it does after that",
    [fails(media)],
    "Attempt m1 free; LeaveOut m1; Attempt m1; GiveUp Format",
    { rows: { FormatRequest: { then: "stop", to: "next" } } }
  )
  does(
    "the row says stop where there are no images",
    [fails(media, { works: false })],
    "Attempt m1 free; LeaveOut m1; GiveUp Format",
    { rows: { FormatRequest: { then: "stop" } } }
  )
  does(
    "a malformed request without images is not sent again",
    [fails(malformed)],
    "Attempt m1 free; GiveUp Format",
    { rows: { FormatRequest: { then: "stop" } } }
  )
  does(
    "a conversation is compacted so often",
    [fails(tooLong())],
    "Attempt m1 free; Compact m1; Attempt m1; Compact m1; Attempt m1; Switch m2; GiveUp ContextOverflow",
    { around: { canCompact: true } }
  )
  does(
    "a conversation is compacted so often for each target where the policy says so",
    [fails(tooLong())],
    "Attempt m1 free; Compact m1; Attempt m1; Switch m2; Compact m2; Attempt m2; GiveUp ContextOverflow",
    { around: { canCompact: true }, policy: { maxCompactions: 1, compactionsPer: "target" } }
  )
  does(
    "a conversation that cannot be compacted goes to a larger window",
    [fails(tooLong(100_000))],
    "Attempt m1 free; Switch m3; Switch m4; GiveUp ContextOverflow",
    {
      views: withInfo(
        viewsOf("m1", "m2", "m3", "m4"),
        {},
        { contextWindow: 100_000 },
        {},
        { contextWindow: 100_001 }
      )
    }
  )
  does(
    "a compaction in vain goes to a larger window, and is not made again",
    [fails(tooLong(), { works: false })],
    "Attempt m1 free; Compact m1; Switch m2; Switch m3; GiveUp ContextOverflow",
    {
      around: { canCompact: true },
      views: withInfo(
        viewsOf("m1", "m2", "m3"),
        { contextWindow: 1 },
        { contextWindow: 2 },
        { contextWindow: 3 }
      )
    }
  )
  does(
    "the window of the model counts, not the one that the error names",
    [fails(tooLong(100_000))],
    "Attempt m1 free; GiveUp ContextOverflow",
    { views: withInfo(viewsOf("m1", "m2"), { contextWindow: 200_000 }, { contextWindow: 150_000 }) }
  )
  does(
    "the largest window that was too small counts",
    [fails(tooLong(200_000)), fails(tooLong(100_000)), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m3; GiveUp Cancelled",
    {
      rows: { ContextOverflow: { then: "retry", attempts: 2 } },
      policy: { patience: ms(60_000) },
      views: withInfo(viewsOf("m1", "m2", "m3"), {}, { contextWindow: 150_000 }, { contextWindow: 250_000 })
    }
  )
  does(
    "a window that is known to be too small stays so behind one that is not known",
    [fails(tooLong(200_000)), fails(tooLong()), cancelled],
    "Attempt m1 free; Attempt m1 +1000; Switch m3; GiveUp Cancelled",
    {
      rows: { ContextOverflow: { then: "retry", attempts: 2 } },
      policy: { patience: ms(60_000) },
      views: withInfo(viewsOf("m1", "m2", "m3"), {}, { contextWindow: 150_000 }, { contextWindow: 250_000 })
    }
  )
  does(
    "a compacted conversation fits a window that was too small",
    [fails(tooLong(100_000)), calm, fails(network), cancelled],
    "Attempt m1 free; Compact m1; Attempt m1; Switch m2 (endpoint cools 10000); GiveUp Cancelled",
    {
      around: { canCompact: true },
      rows: { Network: { attempts: 1 } },
      views: withInfo(viewsOf("m1", "m2"), {}, { contextWindow: 50_000 })
    }
  )
  does(
    "other failures know nothing of windows",
    [fails(network), cancelled],
    "Attempt m1 free; Switch m2 (endpoint cools 10000); GiveUp Cancelled",
    {
      rows: { Network: { attempts: 1 } },
      views: withInfo(viewsOf("m1", "m2"), { contextWindow: 200_000 }, { contextWindow: 100_000 })
    }
  )
  does(
    "an output limit above the model's is lowered once",
    [fails(outputAbove(8_192)), fails(outputAbove(4_096)), cancelled],
    "Attempt m1 free; LowerOutputLimit m1 to 8192; Switch m2; GiveUp Cancelled",
    { call: { outputLimit: { start: 64_000, max: Infinity } } }
  )
  does(
    "an output limit that nobody set is lowered",
    [fails(outputAbove(8_192)), cancelled],
    "Attempt m1 free; LowerOutputLimit m1 to 8192; GiveUp Cancelled"
  )
  does(
    "an output limit that is as low already is left, and nothing is compacted for it",
    [fails(outputAbove(8_192)), cancelled],
    "Attempt m1 free; Switch m2; GiveUp Cancelled",
    { call: { outputLimit: { start: 8_192, max: Infinity } }, around: { canCompact: true } }
  )
  does(
    "an output limit is not lowered where the row does not say so",
    [fails(outputAbove(8_192)), cancelled],
    "Attempt m1 free; Switch m2; GiveUp Cancelled",
    { rows: { OutputTooLong: { then: "move" } } }
  )
  does(
    "an overflow lowers the output limit that it counts, which may be higher than the one of the call",
    [
      fails(new FailoverReason.ContextOverflow({ limit: 200_000, requested: 210_000, output: 64_000 })),
      cancelled
    ],
    "Attempt m1 free; LowerOutputLimit m1 to 53000; GiveUp Cancelled",
    { call: { outputLimit: { start: 40_000, max: Infinity } } }
  )
  does(
    "an overflow lowers the output limit, then compacts",
    [fails(new FailoverReason.ContextOverflow({ limit: 200_000, requested: 210_000, output: 64_000 }))],
    "Attempt m1 free; LowerOutputLimit m1 to 53000; Compact m1; Attempt m1; Switch m2; LowerOutputLimit m2 to 53000; GiveUp ContextOverflow",
    { around: { canCompact: true }, policy: { maxCompactions: 1 } }
  )
  does(
    "a row that makes room cools nothing when it gives up",
    [fails(tooLong())],
    "Attempt m1 free; Switch m2 (key cools 60000); GiveUp ContextOverflow",
    {
      views: viewsOf("m1", "m2"),
      rows: { ContextOverflow: { cooldown: RecoveryPolicy.steady("key", "1 minute"), targets: 3 } }
    }
  )
})

describe("seen text", () => {
  const text = { commit: "text" } as const
  does(
    "is continued, also elsewhere",
    [fails(server, text), fails(network), fails(server), fails(server, text), cancelled],
    'Attempt m1 free; Continue m1 +1000 "interrupted by ServerError 2" free; Continue m1 +2000 "interrupted by Network 3" free; Continue m2 "interrupted by ServerError 4" free (model cools 30000); Continue m2 +1000 "interrupted by ServerError 5" free; GiveUp Cancelled'
  )
  does(
    "is taken back where the consumer can be told, once",
    [fails(server, text), fails(server), fails(server, text), cancelled],
    "Attempt m1 free; Attempt m1 +1000 rewind; Attempt m1 +2000; Switch m2 rewind (model cools 30000); GiveUp Cancelled",
    { policy: { midStream: "restart" }, call: { rewindable: true } }
  )
  does(
    "is continued where it cannot be told",
    [fails(server, text), cancelled],
    'Attempt m1 free; Continue m1 +1000 "interrupted by ServerError 2" free; GiveUp Cancelled',
    { policy: { midStream: "restart" } }
  )
  does(
    "of a cut answer is continued and not taken back",
    [cut(text), fails(server), cancelled],
    'Attempt m1 free; Continue m1 "cut 2" free; Continue m1 +2000 "interrupted by ServerError 3" free; Deliver',
    { policy: { midStream: "restart" }, call: { rewindable: true } }
  )
  does(
    "ends the call where the policy says so",
    [fails(server, text)],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)",
    { policy: { midStream: "fail" } }
  )
  does(
    "ends the call where the program says so",
    [fails(server, text)],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)",
    { call: { midStream: "fail" } }
  )
  does(
    "is continued where the row says so",
    [fails(server, text), cancelled],
    'Attempt m1 free; Continue m1 +1000 "interrupted by ServerError 2" free; GiveUp Cancelled',
    { rows: { ServerError: { midStream: "continue" } }, call: { midStream: "fail" } }
  )
  does(
    "of an object ends the call",
    [fails(server, text)],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)",
    { call: { structured: true } }
  )
  does(
    "of an object ends the call where the consumer cannot be told that it is taken back",
    [fails(server, text)],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)",
    { call: { structured: true, midStream: "restart" } }
  )
  does(
    "of an object ends the call where the policy says so",
    [fails(server, text)],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)",
    { call: { structured: true, rewindable: true, midStream: "fail" } }
  )
  does(
    "of an object is taken back",
    [fails(server, text), cancelled],
    "Attempt m1 free; Attempt m1 +1000 rewind; GiveUp Cancelled",
    { call: { structured: true, rewindable: true, midStream: "restart" } }
  )
  does("of a cut answer ends the call where the policy says so", [cut(text)], "Attempt m1 free; Deliver", {
    policy: { midStream: "fail" }
  })
  const moves = { ContentPolicy: { then: "move" } } as const
  does(
    "of a refusal is not continued elsewhere",
    [fails(refusal, text), cancelled],
    "Attempt m1 free; Switch m2; GiveUp Cancelled",
    { rows: moves }
  )
  does(
    "of a refusal is taken back where the consumer can be told",
    [fails(refusal, text), cancelled],
    "Attempt m1 free; Switch m2 rewind; GiveUp Cancelled",
    { rows: moves, call: { rewindable: true } }
  )
  does(
    "of a refusal ends the call where the policy says so",
    [fails(refusal, text), cancelled],
    "Attempt m1 free; GiveUp ContentPolicy",
    { rows: moves, policy: { midStream: "fail" } }
  )
  does(
    "is continued behind a refusal without text",
    [fails(server, text), fails(refusal), cancelled],
    'Attempt m1 free; Continue m1 +1000 "interrupted by ServerError 2" free; Continue m2 "interrupted by ContentPolicy 3" free; GiveUp Cancelled',
    { rows: moves }
  )
  does(
    "a tool call ends the call",
    [fails(server, { commit: "tool" })],
    "Attempt m1 free; GiveUp ServerError (model cools 30000)"
  )
})

describe("a cut answer", () => {
  const small = (...infos: ReadonlyArray<CallState.TargetView["info"]>) => withInfo(viewsOf("m1"), ...infos)
  does(
    "is repeated with a raised limit, then continued",
    [cut()],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 "cut 3" free; Continue m1 "cut 4" free; Continue m1 "cut 5" free; Deliver',
    { call: from4000 }
  )
  does(
    "that was seen is continued with a raised limit",
    [cut({ commit: "text" })],
    'Attempt m1 free; Continue m1 to 64000 "cut 2" free; Continue m1 "cut 3" free; Continue m1 "cut 4" free; Deliver',
    { call: from4000 }
  )
  does(
    "says that a tool call was cut",
    [cut({ inToolCall: true }), cancelled],
    'Attempt m1 free; Continue m1 "cut in tool call 2" free; Deliver'
  )
  does(
    "is continued elsewhere when a circuit refuses the continuation",
    [cut(), refused(), cancelled],
    'Attempt m1 free; Continue m1 "cut 2" free; Continue m2 "cut 2" free; Deliver'
  )
  does(
    "is repeated elsewhere when a circuit refuses the repeat",
    [cut(), refused(), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Attempt m2; Deliver",
    { call: from4000 }
  )
  does(
    "is repeated as the last resort when a circuit refuses the repeat",
    [cut(), refused(), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Attempt m1 last resort; Deliver",
    { call: from4000, views: viewsOf("m1") }
  )
  does("with a tool call that was seen is delivered", [cut({ commit: "tool" })], "Attempt m1 free; Deliver")
  does("is delivered where the policy leaves it", [cut()], "Attempt m1 free; Deliver", {
    policy: { truncation: false },
    call: from4000
  })
  does("at the user's own limit is delivered", [cut()], "Attempt m1 free; Deliver", {
    call: { outputLimit: { start: 4_000, max: 4_000 } }
  })
  does(
    "is raised to the user's own limit, then delivered",
    [cut()],
    "Attempt m1 free; RaiseOutputLimit m1 to 4001; Deliver",
    { call: { outputLimit: { start: 4_000, max: 4_001 } } }
  )
  does(
    "is raised no further than its window",
    [cut({ input: 90_000 }), cut({ input: 10_000 }), cancelled],
    'Attempt m1 free; RaiseOutputLimit m1 to 10000; Continue m1 "cut 3" free; Deliver',
    { call: from4000, views: small({ contextWindow: 100_000 }) }
  )
  does(
    "is raised no further than the money that is left",
    [cut({ cost: 0.5 }), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 50000; Deliver",
    { call: from4000, views: small({ price: { input: 1, output: 10 } }), policy: { maxCost: 1 } }
  )
  does(
    "is delivered when what continuations add stays poor",
    [cut({ gain: 10 }), cut(), cut({ gain: 10 })],
    'Attempt m1 free; Continue m1 "cut 2" free; Continue m1 "cut 3" free; Deliver',
    { policy: { truncation: { ...Truncation.defaults, continuations: 5, poorGains: 1 } } }
  )
  does(
    "that is continued is not repeated with a raised limit",
    [cut({ input: 97_000 }), cut({ input: 10_000 }), cancelled],
    'Attempt m1 free; Continue m1 "cut 2" free; Continue m1 to 64000 "cut 3" free; Deliver',
    { call: from4000, views: small({ contextWindow: 100_000 }) }
  )
  does(
    "of an object is repeated, and ends the call as an object that was cut",
    [cut()],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; GiveUp Format",
    { call: { structured: true, ...from4000 } }
  )
  does(
    "is delivered when nothing better comes",
    [cut(), fails(server), fails(server), fails(server)],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Attempt m1 +2000; Deliver",
    { call: from4000, views: viewsOf("m1") }
  )
  does(
    "is void when a repeat has streamed text and failed",
    [cut(), fails(server, { commit: "text" }), fails(server, { elapsed: 120_000 })],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 +2000 "interrupted by ServerError 3" free; GiveUp ServerError (model cools 30000)',
    { call: from4000 }
  )
  does(
    "is taken back once when a repeat has streamed text and failed",
    [cut(), fails(server, { commit: "text" }), fails(server), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Attempt m1 +2000 rewind; Switch m2 (model cools 30000); GiveUp Cancelled",
    { call: { rewindable: true, midStream: "restart", ...from4000 } }
  )
  does(
    "is void for a refused limit, too, when a repeat has streamed text and failed",
    [cut(), fails(server, { commit: "text" }), fails(malformed)],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Attempt m1 +2000 rewind; GiveUp Format",
    { call: { rewindable: true, midStream: "restart", ...from4000 } }
  )
  does(
    "without text is not delivered when a continuation fails",
    [cut({ hasText: false }), fails(server, { elapsed: 120_000 })],
    'Attempt m1 free; Continue m1 "cut 2" free; GiveUp ServerError (model cools 30000)'
  )
  does(
    "goes on at its limit when a raised one is refused",
    [cut(), fails(malformed), cut()],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 "cut 3" free; Continue m1 "cut 4" free; Continue m1 "cut 5" free; Deliver',
    { call: from4000, policy: { truncation: { ...Truncation.defaults, raises: 5 } } }
  )
  does(
    "goes on when the raised limit of a continuation is refused",
    [cut({ commit: "text" }), fails(new FailoverReason.Billing()), cut()],
    'Attempt m1 free; Continue m1 to 64000 "cut 2" free; Continue m1 "cut 3" free; Continue m1 "cut 4" free; Continue m1 "cut 5" free; Continue m2 "interrupted by Billing 6" free (key cools 1800000); Deliver',
    { call: from4000 }
  )
  does(
    "goes on at the higher limit that the refusal names",
    [cut(), fails(outputAbove(8_192)), fails(network), cancelled],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 "cut 3" free; Continue m1 +4000 "interrupted by Network 4" free; Deliver',
    { call: from4000 }
  )
  does(
    "does not go below its limit when the refusal names a lower one",
    [cut(), fails(outputAbove(2_000)), cut(), cancelled],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 "cut 3" free; Continue m1 "cut 4" free; Deliver',
    { call: from4000 }
  )
  does(
    "without text is repeated at the higher limit that the refusal names",
    [cut({ hasText: false }), fails(outputAbove(8_192)), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; LowerOutputLimit m1 to 8192; GiveUp Cancelled",
    { call: from4000 }
  )
  does(
    "without text goes on where the refusal names its own limit",
    [cut({ hasText: false }), fails(outputAbove(4_000)), cancelled],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 "cut 3" free; GiveUp Cancelled',
    { call: from4000 }
  )
  does(
    "without text goes on where the refusal names none",
    [cut({ hasText: false }), fails(malformed), cancelled],
    'Attempt m1 free; RaiseOutputLimit m1 to 64000; Continue m1 "cut 3" free; GiveUp Cancelled',
    { call: from4000 }
  )
  does(
    "of an object is repeated at the limit that the refusal names",
    [cut(), fails(outputAbove(8_192)), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; LowerOutputLimit m1 to 8192; GiveUp Cancelled",
    { call: { structured: true, ...from4000 } }
  )
  does(
    "ends with a tool call of its repeat that failed",
    [cut(), fails(malformed, { commit: "tool" })],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Deliver",
    { call: from4000 }
  )
  does(
    "goes elsewhere when its repeat fails for another reason",
    [cut(), fails(invalidKey), cancelled],
    "Attempt m1 free; RaiseOutputLimit m1 to 64000; Switch m2 free (key cools 600000); Deliver",
    { call: from4000 }
  )
})

// -----------------------------------------------------------------------------

describe("single events", () => {
  const views = renewable(viewsOf("m1", "m2"))
  const refOf = (model: string) => viewsOf(model)[0]?.ref ?? assert.fail()
  const [first, second, third, fourth] = [refOf("m1"), refOf("m2"), refOf("m3"), refOf("m4")]
  const at = (now: number, more: Partial<CallState.Snapshot> = {}): CallState.Snapshot => ({
    ...CallState.unbounded,
    now,
    targets: views,
    dead: [],
    cooldowns: Cooldown.empty,
    ...more
  })
  const step = (state: CallState.CallState, event: CallState.Event, snapshot = at(0)) =>
    CallState.step(exact, state, event, snapshot, 0)
  const spent = { elapsed: 0, cost: 0, tokens: 0 }
  const failedBy = (reason: FailoverReason.FailoverReason): CallState.Failed => ({
    _tag: "Failed",
    failure: failed(reason),
    commit: "nothing",
    ...spent
  })
  const cutEvent: CallState.Cut = {
    _tag: "Cut",
    commit: "nothing",
    gain: 1,
    input: 1,
    limit: 4_000,
    inToolCall: false,
    hasText: true,
    ...spent
  }
  const begun = () => step(CallState.initial, CallState.started)[1]

  /** Compares errors by their messages. The rule is not part of the message. */
  const isFailure = (action: CallState.Action, rule: string, reason: FailoverReason.FailoverReason) => {
    const failure = action._tag === "GiveUp" ? action.failure : undefined
    if (failure?._tag !== "ProviderFailure") return assert.fail(action._tag)
    assert.strictEqual(failure.evidence.rule, rule)
    assert.deepStrictEqual({ ...failure.reason }, { ...reason })
  }

  it("give up when no attempt was in flight", () => {
    const ruleOf = (event: CallState.Event): unknown => {
      const [action] = step(CallState.initial, event)
      return action._tag === "GiveUp" && action.failure._tag === "ProviderFailure"
        ? action.failure.evidence.rule
        : action._tag
    }
    assert.strictEqual(ruleOf({ _tag: "KeyAsked", renewed: true }), "call/out-of-order")
    assert.strictEqual(ruleOf({ _tag: "KeyAsked", renewed: false }), "call/out-of-order")
    assert.strictEqual(ruleOf({ _tag: "LeftOut", part: "media", dropped: 1 }), "call/out-of-order")
    assert.strictEqual(ruleOf({ _tag: "Compacted", freed: 1 }), "call/out-of-order")
    assert.strictEqual(ruleOf({ _tag: "CompactionFailed" }), "call/out-of-order")
    assert.strictEqual(ruleOf(failedBy(server)), "test")
    assert.strictEqual(ruleOf(cutEvent), "call/out-of-order")
    const refusal = { until: 1, failure: failed(server), waited: true, byCircuit: false }
    assert.strictEqual(ruleOf({ _tag: "PermitRefused", ...refusal }), "call/out-of-order")
    assert.strictEqual(ruleOf({ _tag: "TakenAway" }), "call/out-of-order")
    const [action] = step(CallState.initial, { _tag: "KeyAsked", renewed: false })
    isFailure(action, "call/out-of-order", malformed)
  })

  it("give up with a local timeout when the program's deadline passed before the first attempt", () => {
    const [action] = step(CallState.initial, CallState.started, at(5, { deadline: 5 }))
    isFailure(action, "limit/deadline", silent)
  })

  it("give up with the last failure when the program's deadline passes later", () => {
    const [, waiting] = step(begun(), failedBy(server), at(0, { deadline: 10_000 }))
    const [action] = step(waiting, { _tag: "TakenAway" }, at(10_000, { deadline: 10_000 }))
    assert.deepInclude(action, { _tag: "GiveUp", failure: failed(server) })
  })

  describe("of a call that waits for a cooldown", () => {
    /** The call waits: one model failed, and both are cooling. */
    const cooling = [first, second].reduce(
      (cooldowns, target) =>
        Cooldown.open(
          cooldowns,
          { scope: "model", target, until: 60_000, failure: failed(server), named: false },
          0
        ),
      Cooldown.empty
    )
    const waiting = () => {
      const [action, after] = step(begun(), failedBy(server), at(0, { cooldowns: cooling }))
      assert.deepInclude(action, { _tag: "Wait", forBudget: false })
      return after
    }
    const mayWake = (more: Partial<CallState.Snapshot>, answered: ReadonlyArray<string> = [second.id]) =>
      CallState.mayWake(exact, waiting(), at(1_000, more), ({ id }) => answered.includes(id))

    it("wake when a target is back that has answered another call", () => {
      assert.isTrue(mayWake({ cooldowns: Cooldown.empty }))
      assert.isFalse(mayWake({ cooldowns: Cooldown.empty }, []))
    })

    it("sleep on without retry budget, and while every target that answered is out or may only be probed", () => {
      assert.isFalse(mayWake({ cooldowns: Cooldown.empty, mayRetry: false }))
      assert.isFalse(mayWake({ cooldowns: cooling }))
      assert.isFalse(mayWake({ cooldowns: cooling, now: 59_000 }))
    })

    it("ask for no token of the retry budget, and hope for none", () => {
      const now = at(1_000, { answered: new Map([[second.id, 1_000]]) })
      assert.isFalse(CallState.mayRelease(exact, waiting(), now, undefined))
      assert.isFalse(CallState.mayHope(exact, waiting(), now))
      assert.strictEqual(CallState.waitsUntil(exact, waiting(), 9_000, at(1_000)), 9_000)
    })

    it("sleep on when the row forbids the target that answered", () => {
      const policy = {
        ...exact,
        rows: { ...exact.rows, ServerError: { ...exact.rows.ServerError, to: ["m3"] } }
      }
      const wakes = (answered: string) =>
        CallState.mayWake(
          policy,
          waiting(),
          at(1_000, { cooldowns: Cooldown.empty }),
          ({ id }) => id === answered
        )
      assert.deepStrictEqual([wakes(second.id), wakes(first.id)], [false, true])
    })
  })

  describe("of a call that waits for the retry budget", () => {
    const empty = { mayRetry: false }
    const queued = () => {
      const [, elsewhere] = step(begun(), failedBy(server), at(0, empty))
      const [action, after] = step(elsewhere, failedBy(server), at(0, empty))
      const soonest = { target: second, until: 120_000, failure: failed(server), refused: false }
      assert.deepInclude(action, { _tag: "Wait", forBudget: true, soonest })
      return after
    }

    it("ask the target that answered another call", () => {
      for (const to of [first, second]) {
        const [action] = step(queued(), { _tag: "Woke", early: 1_000, to }, at(60_000))
        assert.strictEqual("target" in action && action.target.id, to.id)
      }
    })

    it("do not count its attempts against those of the row", () => {
      let state = queued()
      let attempts = state.made.attempts
      for (; attempts < exact.maxAttempts; attempts++) {
        const [action, sent] = step(state, { _tag: "Woke", early: 100_000, to: second }, at(0))
        assert.deepInclude(action, { _tag: "Attempt", target: second })
        state = step(sent, failedBy(server), at(0, empty))[1]
      }
      assert.isAbove(attempts, exact.rows.ServerError.attempts + 1)
      assert.strictEqual(state.doing._tag, "Done")
    })

    it("do not count them after the budget has tokens again", () => {
      const alone = { targets: views.slice(1) }
      let [action, state] = step(queued(), { _tag: "Woke", early: 100_000, to: second }, at(0, alone))
      for (; action._tag === "Attempt"; [action, state] = step(state, failedBy(server), at(0, alone))) {
        assert.strictEqual(action.target.id, second.id)
      }
      const tries = Log.triesAt(state, second)
      assert.strictEqual(tries.released, 1)
      assert.strictEqual(tries.count, exact.rows.ServerError.attempts + 1)
    })

    it("may go to the target that answered, or to any that its last failure allows", () => {
      const mayRepeat = (target: TargetRef | undefined, more: Partial<CallState.Snapshot> = {}, of = exact) =>
        CallState.mayRelease(of, queued(), at(1_000, { ...empty, ...more }), target)
      const onlyBack = { ...exact, rows: changed({ ServerError: { to: ["m3"] } }) }
      const cooling = (target: TargetRef) =>
        Cooldown.open(
          Cooldown.empty,
          { scope: "model", target, until: 60_000, failure: failed(server), named: false },
          0
        )
      assert.deepStrictEqual(
        [first, second, undefined].map((target) => mayRepeat(target)),
        [true, true, true]
      )
      assert.isFalse(mayRepeat(third))
      assert.deepStrictEqual(
        [first, second, undefined].map((target) => mayRepeat(target, {}, onlyBack)),
        [false, true, true]
      )
      assert.deepStrictEqual(
        [first, second, undefined].map((target) => mayRepeat(target, { cooldowns: cooling(first) })),
        [false, true, true]
      )
      assert.isFalse(mayRepeat(undefined, { targets: views.slice(0, 1) }, onlyBack))
      assert.isFalse(mayRepeat(undefined, { cooldowns: cooling(first), targets: views.slice(0, 1) }))
    })

    it("rests for the backoff of its repeats that the budget let go and that failed", () => {
      let state = queued()
      const rests = () => (state.doing._tag === "Queue" ? state.doing.restsUntil : assert.fail())
      assert.strictEqual(rests(), 0)
      for (const rest of [1_000, 2_000, 4_000]) {
        const [, sent] = step(state, { _tag: "Woke", early: 100_000, to: second }, at(0))
        state = step(sent, failedBy(server), at(0, empty))[1]
        assert.strictEqual(rests(), rest)
        const mayGo = (now: number) => CallState.mayRelease(exact, state, at(now, empty), second)
        assert.deepStrictEqual([mayGo(rest - 1), mayGo(rest)], [false, true])
      }
      const jittered = { ...exact, rows: RecoveryPolicy.interactive.rows }
      assert.strictEqual(Delays.beforeRelease(jittered, state), 4_000)
      const leaving = (left: TargetRef) => ({ ...state, made: { ...state.made, left } })
      assert.strictEqual(Delays.beforeRelease(exact, leaving(first)), 0)
      assert.strictEqual(Delays.beforeRelease(exact, leaving(third)), 0)
      assert.strictEqual(Delays.beforeRelease(exact, CallState.initial), 0)
    })

    it("hopes for 15 s, and behind them as long as a target answers", () => {
      const state = queued()
      const hopes = (now: number, answeredAt?: number) =>
        CallState.mayHope(
          exact,
          state,
          at(now, { answered: new Map(answeredAt === undefined ? [] : [[second.id, answeredAt]]) })
        )
      assert.deepStrictEqual([hopes(14_999), hopes(15_000), hopes(15_000, 1)], [true, false, true])
      const until = (now: number, more: Partial<CallState.Snapshot> = {}) =>
        CallState.waitsUntil(exact, state, 120_000, at(now, more))
      assert.strictEqual(until(1_000), 15_000)
      assert.strictEqual(until(1_000, { answered: new Map([[second.id, 900]]) }), 120_000)
      assert.strictEqual(CallState.waitsUntil(exact, state, 9_000, at(1_000)), 9_000)
      assert.isFalse(CallState.mayHope(exact, CallState.initial, at(0)))
    })

    it("hopes for less when its attempts have taken time", () => {
      const [, elsewhere] = step(begun(), { ...failedBy(server), elapsed: 6_000 }, at(0, empty))
      const [, state] = step(elsewhere, failedBy(server), at(6_000, empty))
      assert.deepStrictEqual(
        [14_999, 15_000].map((now) => CallState.mayHope(exact, state, at(now, empty))),
        [true, false]
      )
    })

    it("give up when it wakes without a token, because the shell has no hope left", () => {
      const [action] = step(queued(), { _tag: "Woke", early: 100_000 }, at(20_000, empty))
      isFailure(action, "test", server)
    })

    it("is hoped for while a target answers, or an attempt is in flight for longer than the failure took", () => {
      const made = { ...queued().made, failedAfter: 500 }
      const state = { ...queued(), made }
      const now = 50_000
      const works = (at: number, startedAt: number) =>
        isWorking(exact, state, {
          now,
          answered: new Map([[second.id, at]]),
          flying: new Map([[1, { target: first, startedAt }]])
        })
      assert.isTrue(works(30_001, now))
      assert.isFalse(works(30_000, now - 499))
      assert.isTrue(works(30_000, now - 500))
    })

    it("send nothing when the time is over", () => {
      const [action] = step(queued(), { _tag: "Woke", early: 0, to: second }, at(0))
      isFailure(action, "test", server)
    })
  })

  it("end a remedy when the retry budget is empty meanwhile", () => {
    const [asks, mending] = step(begun(), failedBy(invalidKey))
    assert.strictEqual(asks._tag, "RenewKey")
    const [action] = step(mending, { _tag: "KeyAsked", renewed: true }, at(0, { mayRetry: false }))
    assert.deepInclude(action, { _tag: "Switch", target: second })
  })

  it("end a remedy when the deadline passes meanwhile, although the budget is not empty", () => {
    const [, mending] = step(begun(), failedBy(invalidKey))
    const [action] = step(mending, { _tag: "KeyAsked", renewed: true }, at(9, { deadline: 9 }))
    assert.strictEqual(action._tag, "GiveUp")
  })

  it("treat a target that left the chain as one without known facts", () => {
    const gone = at(0, { targets: views.slice(1) })
    const [action] = step(begun(), failedBy(invalidKey), gone)
    assert.deepInclude(action, { _tag: "Switch", target: second })
    assert.strictEqual(step(begun(), cutEvent, gone)[0]._tag, "RaiseOutputLimit")
    assert.strictEqual(step(begun(), failedBy(tooLong(9)), gone)[1].mended.overflowed, 9)
  })

  it("find no cost for a repeat with a raised limit that was taken away", () => {
    const [, raised] = step(begun(), { ...cutEvent, hasText: false })
    const alone = at(0, { mayRetry: false, targets: views.slice(0, 1) })
    const [action] = step(raised, { _tag: "TakenAway" }, alone)
    assert.strictEqual(action._tag === "GiveUp" && action.failure._tag, "AllTargetsOut")
  })

  it("return to a target whose circuit closed meanwhile, not as a last resort", () => {
    const refusal = { _tag: "PermitRefused", failure: failed(server), waited: true, byCircuit: true } as const
    const [, elsewhere] = step(begun(), { ...refusal, until: 5 })
    const [action] = step(elsewhere, { ...refusal, until: 100 }, at(6))
    assert.deepInclude(action, { _tag: "Attempt", target: first, lastResort: false })
  })

  it("continue with the failure when a compaction freed nothing", () => {
    const [asks, mending] = step(begun(), failedBy(tooLong()), at(0, { canCompact: true }))
    assert.strictEqual(asks._tag, "Compact")
    const compacted = (freed: number) =>
      step(mending, { _tag: "Compacted", freed }, at(0, { canCompact: true }))
    assert.deepInclude(compacted(1)[0], { _tag: "Attempt", target: first })
    assert.deepInclude(compacted(0)[0], { _tag: "Switch", target: second })
  })

  it("keep the limit of the cut answer, or a higher one, when a raised one is refused", () => {
    const [, raised] = step(begun(), cutEvent)
    assert.strictEqual(step(raised, failedBy(outputAbove(8_192)))[1].mended.outputLimit, 8_192)
    assert.strictEqual(step(raised, failedBy(outputAbove(2_000)))[1].mended.outputLimit, 4_000)
  })

  it("give up with the failure of each target and the time until the first is back", () => {
    const cooldowns = [
      { target: first, until: 30_000, failure: failed(limited) },
      { target: second, until: 20_000, failure: failed(server) },
      { target: third, until: 10_000, failure: failed(invalidKey) },
      { target: fourth, until: Infinity, failure: failed(invalidKey) }
    ].reduce<Cooldown.Cooldowns>(
      (opened, cooldown) => Cooldown.open(opened, { ...cooldown, scope: "model" }, 0),
      Cooldown.empty
    )
    const dead = [{ target: { ...first, id: "dead" }, failure: failed(network) }]
    const targets = viewsOf("m1", "m2", "m3", "m4")
    const out = at(5_000, { cooldowns, dead, deadline: 6_000, targets })
    const [action] = step(CallState.initial, CallState.started, out)
    if (action._tag !== "GiveUp" || action.failure._tag !== "AllTargetsOut") return assert.fail(action._tag)
    assert.deepStrictEqual(
      action.failure.targets.map(({ target, availableIn }) => [
        target.id,
        availableIn && Duration.toMillis(availableIn)
      ]),
      [
        ["m1", 25_000],
        ["m2", 15_000],
        ["m3", 5_000],
        ["m4", undefined],
        ["dead", undefined]
      ]
    )
    // Waiting cannot help a key that was refused.
    assert.deepStrictEqual(action.failure.soonest, Duration.millis(15_000))
  })

  it("know the attempt in flight", () => {
    const state = begun()
    assert.deepInclude(CallState.flightOf(state), { target: first, delay: 0 })
    assert.deepStrictEqual([CallState.attemptsOf(state), CallState.switchesOf(state)], [1, 0])
    const [, repeat] = step(state, failedBy(server))
    assert.deepStrictEqual([CallState.attemptsOf(repeat), CallState.switchesOf(repeat)], [2, 0])
    assert.strictEqual(timeLeft(exact, repeat, at(0)), 119_000)
    const [, elsewhere] = step(state, failedBy(invalidKey), at(0, { targets: viewsOf("m1", "m2") }))
    assert.deepStrictEqual([CallState.attemptsOf(elsewhere), CallState.switchesOf(elsewhere)], [2, 1])
    const [, back] = step(elsewhere, failedBy(refusal))
    assert.isUndefined(CallState.flightOf(back))
    assert.deepStrictEqual([CallState.attemptsOf(back), CallState.switchesOf(back)], [2, 1])
    assert.deepStrictEqual(CallState.initial.doing, { _tag: "Choose" })
    assert.deepStrictEqual(CallState.initial.mended.tried, [])
  })

  it("know whether a limit ended the last answer", () => {
    const [, raised] = step(begun(), cutEvent)
    const [, failing] = step(raised, failedBy(server))
    assert.deepStrictEqual([begun(), raised, failing].map(CallState.wasCut), [false, true, false])
  })

  it("remember the remedies that were tried, by target", () => {
    const [, mending] = step(begun(), failedBy(invalidKey))
    assert.deepStrictEqual(mending.mended.tried, [{ what: "key", at: first.id }])
    const cooldowns = views.reduce(
      (opened, { ref }) =>
        Cooldown.open(opened, { scope: "model", target: ref, until: 60_000, failure: failed(server) }, 0),
      Cooldown.empty
    )
    const probes = { ...exact, whenAllOut: "probe" as const }
    const [action, probing] = CallState.step(
      probes,
      CallState.initial,
      CallState.started,
      at(0, { cooldowns }),
      0
    )
    assert.deepInclude(action, { _tag: "Attempt", probe: true })
    assert.deepStrictEqual(probing.mended.tried, [{ what: "probe", at: first.id }])
  })

  it("may leave out more of a kind of parts while some are left", () => {
    const asked = [
      { what: "media", at: first.id },
      { what: "thinking", at: first.id },
      { what: "media", at: second.id }
    ] as const
    const mended = { ...CallState.initial.mended, tried: asked }
    const left = (left?: number) =>
      Remedy.leftOut({ ...CallState.initial, mended }, first, {
        _tag: "LeftOut",
        part: "media",
        dropped: 1,
        left
      })
    assert.deepStrictEqual(left().mended.tried, asked)
    assert.deepStrictEqual(left(0).mended.tried, asked)
    assert.deepStrictEqual(left(1).mended, { ...mended, tried: asked.slice(1) })
    assert.strictEqual(left(1).doing, CallState.initial.doing)
  })

  it("keep an answer that the window cut, and continue it unless it is an object", () => {
    const answerOf = (call: Partial<CallState.CallFacts>, keptText: boolean, commit: CallState.Commit) => {
      const started = { ...CallState.started, ...call }
      const [, flying] = step(CallState.initial, started)
      return step(flying, { ...failedBy(tooLong()), keptText, commit })[1].answer
    }
    assert.deepInclude(answerOf({}, true, "nothing"), { _tag: "Cut", continued: true })
    assert.deepInclude(answerOf({ structured: true }, true, "nothing"), { _tag: "Cut", continued: false })
    const taken = { rewindable: true, midStream: "restart" } as const
    assert.deepInclude(answerOf(taken, true, "text"), { _tag: "Cut", seen: true, anew: false })
  })

  it("learn no window from a limit in bytes", () => {
    const bytes = new FailoverReason.ContextOverflow({ limit: 9, media: true })
    assert.strictEqual(step(begun(), failedBy(bytes))[1].mended.overflowed, 0)
  })

  it("do not repeat at a target when the time is over and the attempt was taken away", () => {
    const alone = at(0, { targets: viewsOf("m1") })
    const [action, delayed] = step(begun(), { ...failedBy(server), elapsed: 119_000 }, alone)
    assert.deepInclude(action, { _tag: "Attempt", delay: 1_000 })
    const [last] = step(delayed, { _tag: "TakenAway" }, alone)
    assert.strictEqual(last._tag === "GiveUp" && last.failure._tag, "AllTargetsOut")
  })

  it("forget the waits at targets that an operator brought back", () => {
    const [, delayed] = step(begun(), failedBy(server))
    const notBefore = (reset?: CallState.Reset) =>
      Log.triesAt(step(delayed, { _tag: "TakenAway", reset })[1], first).notBefore
    assert.deepStrictEqual([notBefore(), notBefore(new Set([first.id]))], [undefined, -Infinity])
  })

  it("count the tokens of attempts that failed or were cut", () => {
    const [, once] = step(begun(), { ...failedBy(server), tokens: 7 })
    assert.strictEqual(once.made.tokens, 7)
    const [, twice] = step(once, { ...cutEvent, tokens: 5 })
    assert.strictEqual(twice.made.tokens, 12)
  })

  it("say that a remedy is in progress", () => {
    assert.strictEqual(step(begun(), failedBy(invalidKey))[1].doing._tag, "Mend")
  })

  it("keep a target that refused at once out for a millisecond, so that the call ends", () => {
    const refusal = { until: 0, failure: failed(server), waited: true, byCircuit: false } as const
    const alone = at(5, { targets: views.slice(0, 1) })
    const [action] = step(begun(), { _tag: "PermitRefused", ...refusal }, alone)
    assert.deepInclude(action, { _tag: "Wait", until: 6 })
  })

  it("count the time that a refusal took", () => {
    const refusal = { until: 9, failure: failed(server), waited: true, took: 7, byCircuit: false } as const
    assert.strictEqual(step(begun(), { _tag: "PermitRefused", ...refusal })[1].made.spent, 7)
  })
})

describe("midStreamAtMost", () => {
  const most = (
    policy: RecoveryPolicy.MidStream,
    first: RecoveryPolicy.MidStream | undefined = undefined,
    second: RecoveryPolicy.MidStream | undefined = undefined
  ) =>
    CallState.midStreamAtMost(
      {
        ...exact,
        midStream: policy,
        rows: changed({ ServerError: { midStream: first }, Network: { midStream: second } })
      },
      { ...CallState.initial.call, rewindable: true }
    )

  it("is the policy's value when no row allows more", () => {
    assert.strictEqual(most("fail"), "fail")
    assert.strictEqual(most("continue", "fail"), "continue")
    assert.strictEqual(most("restart", "continue", "fail"), "restart")
  })

  it("is to take a refusal back where another model may answer it and the consumer supports it", () => {
    const of = (midStream: RecoveryPolicy.MidStream, then: RecoveryPolicy.Row["then"], rewindable = true) =>
      CallState.midStreamAtMost(
        { ...exact, midStream, rows: changed({ ContentPolicy: { then } }) },
        { ...CallState.initial.call, rewindable }
      )
    assert.strictEqual(of("continue", "move"), "restart")
    assert.strictEqual(of("continue", "stop"), "continue")
    assert.strictEqual(of("continue", "move", false), "continue")
    assert.strictEqual(of("fail", "move"), "fail")
  })

  it("is the most that any row allows", () => {
    assert.strictEqual(most("fail", "continue"), "continue")
    assert.strictEqual(most("fail", "restart", "continue"), "restart")
    assert.strictEqual(most("fail", "continue", "restart"), "restart")
    assert.strictEqual(most("continue", "restart"), "restart")
  })
})
