/**
 * Checks `CallState` against random calls: its guarantees, and a few calls step by step.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import { isContinuing } from "#agent/failover/decide/AnswerSoFar"
import { isSending } from "#agent/failover/decide/Sending"
import * as Log from "#agent/failover/decide/CallLog"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { mayProbe } from "./chainSupport.ts"
import * as OutputLimit from "#agent/failover/decide/OutputLimit"
import * as RecoveryPolicy from "#agent/failover/decide/RecoveryPolicy"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"
import type { Entry, Turn, World } from "./callWorld.ts"
import { calm, failed, forAll, ordinary, play, tokensOfAnAttempt, viewsOf } from "./callWorld.ts"

/** Tolerance for sums of waits, which are floats. */
const tiny = 1e-6

const sentIn = ({ entries }: World) => entries.filter(({ sent }) => sent)
const deadlineOf = ({ policy }: World) => Duration.toMillis(policy.deadline)
const isLocalTimeout = ({ reason }: CallState.Failed["failure"]) => reason._tag === "Timeout" && reason.local
/** True when the entry continues a partial answer. */
const goesOn = ({ after }: Entry) => isContinuing(after.answer)
const raiseOf = ({ answer }: CallState.CallState) => (answer._tag === "Cut" ? answer.raise : undefined)
/** True when the entry goes back from a raised limit that was refused. */
const unraises = ({ event, before, after }: Entry) =>
  event._tag === "Failed" && raiseOf(before) !== undefined && raiseOf(after) === undefined
/** True when the entry reacts to a cut answer. */
const climbs = (entry: Entry) => entry.event._tag === "Cut"
const delayOf = ({ action }: Entry) => (isSending(action) ? action.delay : 0)
/** Returns the failure that the call left a target for, and that target, as they were when the action was chosen. */
const leftFor = ({ event, before }: Entry) =>
  event._tag === "Failed"
    ? { failure: event.failure, left: CallState.flightOf(before)?.target }
    : { failure: before.made.failure, left: before.made.left }
/** True for a first attempt at another target after one refused the call. */
const sweeps = (entry: Entry, asked: ReadonlySet<string>): boolean => {
  const { failure, left } = leftFor(entry)
  return (
    isSending(entry.action) &&
    failure !== undefined &&
    Log.isRefusal(failure) &&
    left?.id !== entry.action.target.id &&
    !asked.has(entry.action.target.id)
  )
}
const isEnd = ({ action }: Pick<Entry, "action">) => action._tag === "GiveUp" || action._tag === "Deliver"

// The worlds are simulated once, in the first test.
describe("for every policy and every sequence of events", { timeout: 120_000 }, () => {
  it("the call ends, and stays ended", () => {
    forAll(({ entries }) => {
      const last = entries.at(-1)
      assert.isTrue(last !== undefined && isEnd(last))
      assert.strictEqual(last?.after.doing._tag, "Done")
      for (const entry of entries.slice(0, -1)) assert.isFalse(isEnd(entry))
    })
  })

  it("attempts never exceed the maximum, except first ones after a refusal, and the ledger counts the sent ones", () => {
    forAll((world) => {
      const sent = sentIn(world)
      const swept = sent.filter((entry) => sweeps(entry, new Set(entry.books.asked))).length
      assert.isAtMost(sent.length - swept, world.policy.maxAttempts)
      assert.isTrue(swept === 0 || swept < world.views.length)
      const { made } = world.entries.at(-1)?.after ?? assert.fail()
      assert.strictEqual(made.attempts, sent.length)
      assert.strictEqual(made.sweeps, swept)
    })
  })

  it("a last resort is sent only when no target is ready and a circuit refused it", () => {
    forAll((world) => {
      for (const { action, before, snapshot } of world.entries) {
        if (!isSending(action) || !action.lastResort) continue
        assert.isTrue(world.policy.lastResort && world.policy.whenAllOut !== "fail")
        // The refusal may be this very event, so the state before need not show it.
        assert.strictEqual(action.delay, 0)
        assert.isUndefined(Cooldown.outOf(snapshot.cooldowns, action.target, snapshot.now))
        assert.isBelow(before.made.attempts - before.made.sweeps, world.policy.maxAttempts)
      }
    })
  })

  it("the ledger has the sums of waits, failed attempts and money", () => {
    forAll(({ entries }) => {
      const { books, after, event } = entries.at(-1) ?? assert.fail()
      // The time of the last attempt is counted here before the machine gets its event.
      assert.approximately(after.made.spent, books.spent, tiny, event._tag)
      assert.approximately(after.made.cost, books.cost, tiny)
    })
  })

  it("the ledger knows the tokens of attempts that failed or were cut", () => {
    forAll(({ entries }) => {
      const ended = entries.filter(({ event }) => event._tag === "Failed" || event._tag === "Cut").length
      assert.strictEqual(entries.at(-1)?.after.made.tokens, ended * tokensOfAnAttempt)
    })
  })

  it("the phase matches the work in progress", () => {
    forAll(({ entries }) => {
      for (const { action, after } of entries) {
        const mends = ["Compact", "LeaveOut", "RenewKey"].includes(action._tag)
        const waits = action._tag === "Wait" && action.forBudget ? "Queue" : "Wait"
        const phase = isSending(action) ? "Attempt" : mends ? "Mend" : waits
        assert.strictEqual(after.doing._tag, isEnd({ action }) ? "Done" : phase)
      }
    })
  })

  it("no attempt begins after waits and failed attempts used up the deadline, except one after a silent attempt", () => {
    forAll((world) => {
      const late = sentIn(world).filter(
        (entry) =>
          !CallState.wasCut(entry.after) && entry.books.spent + delayOf(entry) > deadlineOf(world) + tiny
      )
      assert.isAtMost(late.length, 1)
      for (const { after } of late) {
        assert.isTrue(after.made.failure !== undefined && isLocalTimeout(after.made.failure))
      }
    })
  })

  it("no wait exceeds the deadline of the policy or of the surrounding program", () => {
    forAll((world) => {
      for (const { action, books } of world.entries) {
        if (action._tag !== "Wait") continue
        assert.isAtLeast(action.until, books.now)
        assert.isAtMost(books.spent + action.until - books.now, deadlineOf(world) + tiny)
        assert.isAtMost(action.until, world.around.deadline + tiny)
      }
    })
  })

  it("no attempt begins after the deadline of the surrounding program", () => {
    forAll((world) => {
      for (const entry of sentIn(world)) {
        assert.isAtMost(entry.books.now + delayOf(entry), world.around.deadline + tiny)
      }
    })
  })

  it("no attempt begins once attempts have cost the limit", () => {
    forAll((world) => {
      const { maxCost } = world.policy
      if (maxCost !== undefined) for (const { books } of sentIn(world)) assert.isBelow(books.cost, maxCost)
    })
  })

  it("a cancel, a malformed request, refused content and a committed tool call are never followed by an attempt", () => {
    forAll(({ entries, policy }) => {
      for (const entry of entries) {
        const { event } = entry
        // The refusal of a raised limit does not refuse the call.
        if (unraises(entry)) continue
        const stops = event._tag === "Failed" && RecoveryPolicy.rowOf(policy, event.failure).then === "stop"
        const committed = (event._tag === "Failed" || event._tag === "Cut") && event.commit === "tool"
        if (stops || committed) assert.isTrue(isEnd(entry))
      }
    })
  })

  it("without retry budget no target is asked twice and one switch is made, apart from free attempts", () => {
    forAll((world) => {
      if (world.around.budget !== 0) return
      const paid = sentIn(world).filter(({ action }) => isSending(action) && !action.isFree)
      assert.isAtMost(paid.length, 1)
      for (const { action, before } of paid)
        assert.notStrictEqual(isSending(action) && action.target.id, before.made.left?.id)
    })
  })

  it("free attempts are first ones, continuations, further targets after a refusal, and waits that were named", () => {
    forAll((world) => {
      for (const entry of sentIn(world)) {
        const { action, before, event, books } = entry
        if (!isSending(action) || !action.isFree) continue
        const isFirst = before.made.attempts === 0 || CallState.attemptsOf(entry.after) === 1
        const named = event._tag === "Failed" ? event.failure.retryAfter : undefined
        const until = named === undefined ? Infinity : books.now + Duration.toMillis(named)
        const known = Log.triesAt(before, action.target).notBefore ?? Infinity
        const at = books.now + action.delay
        const last = event._tag === "Failed" ? event.failure : before.made.failure
        assert.isTrue(
          isFirst ||
            goesOn(entry) ||
            at >= Math.min(until, known) ||
            (last !== undefined && Log.isRefusal(last)),
          `${action._tag} ${event._tag}`
        )
      }
    })
  })

  it("an object is never continued, and never delivered partially", () => {
    forAll(({ entries, around }) => {
      if (!around.call.structured) return
      for (const entry of entries) {
        assert.notStrictEqual(entry.action._tag, "Deliver")
        if (entry.sent) assert.isFalse(goesOn(entry))
      }
    })
  })

  it("seen text is continued, or taken back when the consumer supports it", () => {
    forAll((world) => {
      for (const entry of sentIn(world)) {
        const { action, books } = entry
        const rewinds = "rewind" in action && action.rewind
        assert.strictEqual(books.seen, rewinds || (books.seen && goesOn(entry)))
        if (rewinds) assert.isTrue(world.around.call.rewindable && !goesOn(entry))
        if (action._tag === "Continue") assert.isTrue(goesOn(entry))
      }
    })
  })

  it("a continuation has a nudge", () => {
    forAll((world) => {
      for (const entry of sentIn(world)) {
        const { action } = entry
        if (goesOn(entry)) assert.isTrue("nudge" in action && action.nudge !== undefined, action._tag)
      }
    })
  })

  it("the text of a cut answer is delivered, also when a repeat with a raised limit fails", () => {
    forAll(({ entries, around }) => {
      const { action, books, event } = entries.at(-1) ?? assert.fail()
      if (around.call.structured) return
      if (books.kept) assert.strictEqual(action._tag, "Deliver")
      // An answer without text is delivered only when it came last.
      else if (event._tag !== "Cut" && !unraises(entries.at(-1) ?? assert.fail()))
        assert.strictEqual(action._tag, "GiveUp")
    })
  })

  it("seen text, and a limit that a provider refused, are never repeated with a raised limit", () => {
    forAll(({ entries }) => {
      for (const { action, books, before } of entries) {
        if (action._tag === "RaiseOutputLimit") assert.isFalse(books.seen)
        const isRaise = action._tag === "RaiseOutputLimit" || (action._tag === "Continue" && action.raisedTo)
        if (isRaise) assert.isFalse(before.mended.lowered.has(action.target.model))
      }
    })
  })

  it("a refused raise keeps the limit of the cut answer, or uses the higher one that was named", () => {
    forAll(({ entries }) => {
      for (const entry of entries) {
        if (!unraises(entry) || entry.event._tag !== "Failed") continue
        const named = OutputLimit.lowered(RecoveryPolicy.interactive.outputRoom, entry.event.failure) ?? 0
        const from = raiseOf(entry.before)?.from ?? assert.fail()
        // An answer without text is asked for again, with the higher limit.
        if (!entry.before.answer.hasText && named > from) continue
        // Text of the repeat has made the cut answer void.
        if (entry.before.answer.anew && entry.event.commit === "text") continue
        assert.strictEqual(entry.after.mended.outputLimit, Math.max(from, named))
        assert.include(["Continue", "Deliver"], entry.action._tag)
      }
    })
  })

  it("a limit is raised only upwards, and never above the limits of user, model, window and money", () => {
    forAll(({ entries, policy, views, around }) => {
      for (const { action, event, books } of entries) {
        const limit =
          action._tag === "RaiseOutputLimit"
            ? action.limit
            : action._tag === "Continue"
              ? action.raisedTo
              : undefined
        if (limit === undefined || event._tag !== "Cut" || policy.truncation === false || !isSending(action))
          continue
        const info = views.find(({ ref }) => ref.id === action.target.id)?.info ?? assert.fail()
        assert.isAbove(limit, event.limit ?? Infinity)
        assert.isAtMost(limit, policy.truncation.raiseTo)
        assert.isAtMost(limit, around.call.outputLimit.max)
        assert.isAtMost(limit, info.maxOutputTokens ?? Infinity)
        if (info.contextWindow !== undefined && event.input !== undefined)
          assert.isAtMost(limit + event.input, info.contextWindow)
        if (info.price !== undefined && policy.maxCost !== undefined) {
          const cost = (info.price.input * (event.input ?? 0) + info.price.output * limit) / 1e6
          assert.isAtMost(books.cost + cost, policy.maxCost + tiny)
        }
      }
    })
  })

  it("raises and continuations are counted, and continuations with little gain end", () => {
    forAll((world) => {
      const { truncation } = world.policy
      const climbing = sentIn(world).filter(climbs)
      if (truncation === false) return assert.deepStrictEqual(climbing, [])
      const raised = climbing.filter(
        ({ action }) =>
          action._tag === "RaiseOutputLimit" || (action._tag === "Continue" && action.raisedTo !== undefined)
      )
      const continued = climbing.filter(({ action }) => action._tag === "Continue")
      assert.isAtMost(raised.length, truncation.raises)
      assert.isAtMost(continued.length, truncation.continuations)
      // The first cut answer is not a gain, because it is the one that is continued.
      const first = continued[0]
      const gains = world.entries
        .slice(first === undefined ? Infinity : world.entries.indexOf(first) + 1)
        .flatMap(({ event, action }) =>
          event._tag === "Cut" ? [{ isPoor: event.gain < truncation.minGain, tag: action._tag }] : []
        )
      gains.forEach(({ tag }, i) => {
        const last = gains.slice(Math.max(0, i + 1 - truncation.poorGains), i + 1)
        if (last.length === truncation.poorGains && last.every(({ isPoor }) => isPoor))
          assert.notStrictEqual(tag, "Continue")
      })
    })
  })

  it("a limit is lowered once per target, to the room that is left or the limit that the provider names", () => {
    forAll(({ entries }) => {
      const lowered = entries.flatMap(({ action }) => (action._tag === "LowerOutputLimit" ? [action] : []))
      assert.strictEqual(new Set(lowered.map(({ target }) => target.id)).size, lowered.length)
      for (const { limit } of lowered) assert.isTrue(limit >= 3_000 && limit < 64_000)
    })
  })

  it("compactions stay within their maximum, and a key is refreshed once per target", () => {
    forAll(({ entries, policy, around }) => {
      const compacted = entries.filter(({ action }) => action._tag === "Compact")
      assert.isAtMost(compacted.length, around.canCompact ? policy.maxCompactions : 0)
      const dropped = entries.flatMap(({ action }) =>
        action._tag === "LeaveOut" ? [`${action.part} ${action.target.id}`] : []
      )
      assert.strictEqual(new Set(dropped).size, dropped.length)
      const renewed = entries.flatMap(({ action }) => (action._tag === "RenewKey" ? [action.target.id] : []))
      assert.strictEqual(new Set(renewed).size, renewed.length)
    })
  })

  it("every attempt goes to a target of the chain", () => {
    forAll(({ entries, views }) => {
      const ids = views.map(({ ref }) => ref.id)
      for (const { action } of entries) if (isSending(action)) assert.include(ids, action.target.id)
    })
  })

  it("a cooling target is asked only by a probe the policy allows, and again only after a remedy or to continue", () => {
    forAll(({ entries, policy }) => {
      for (const entry of entries) {
        const { action, event, snapshot, before } = entry
        if (!isSending(action) || climbs(entry) || unraises(entry)) continue
        const { target, delay, probe } = action
        const mends =
          event._tag === "Compacted" ||
          event._tag === "KeyAsked" ||
          event._tag === "LeftOut" ||
          "limit" in action
        const at = snapshot.now + delay
        const out = Cooldown.outOf(snapshot.cooldowns, target, at)
        const isOwn =
          action.cooldown !== undefined &&
          Cooldown.covers(action.cooldown.scope, action.cooldown.target, target)
        if (out !== undefined && !("limit" in action)) assert.isTrue(probe)
        const looks = Cooldown.isLookedAt(snapshot.cooldowns, target)
        if (probe) assert.isTrue(out !== undefined || isOwn || looks)
        if (out === undefined || mends) continue
        const isLast =
          policy.whenAllOut === "probe" &&
          !before.mended.tried.some(({ what, at }) => what === "probe" && at === target.id)
        const { probe: rule } = policy
        const isNear =
          rule !== false &&
          mayProbe(snapshot.cooldowns, target, snapshot.now, (length) =>
            Math.min(Duration.toMillis(rule.atMost), rule.share * length)
          )
        assert.isTrue(isLast || isNear)
      }
    })
  })

  it("a switch follows the row of the failure, and avoids targets that its cooldown covers", () => {
    forAll(({ entries, policy }) => {
      for (const { action, books } of entries) {
        if (action._tag !== "Switch") continue
        const { from, target, failure, cooldown } = action
        assert.notStrictEqual(from.id, target.id)
        const { to } = RecoveryPolicy.rowOf(policy, failure)
        // Without a dialect each provider has its own wire format.
        if (to === "other-dialect") assert.notStrictEqual(target.provider, from.provider)
        else if (to === "other-model") assert.notStrictEqual(target.model, from.model)
        else if (to !== "next") assert.include(to, target.model)
        // A cooldown is over at once when a server that all targets share names a wait of zero.
        if (cooldown !== undefined && cooldown.until > books.now && policy.whenAllOut !== "probe") {
          assert.isFalse(Cooldown.covers(cooldown.scope, cooldown.target, target))
        }
      }
    })
  })

  it("every wait ends with a ready target, or with one that may be probed", () => {
    forAll(({ policy, entries }) => {
      const { probe: rule } = policy
      for (const { action, snapshot, after } of entries) {
        if (action._tag !== "Wait") continue
        const cooldowns =
          action.cooldown === undefined
            ? snapshot.cooldowns
            : Cooldown.open(snapshot.cooldowns, action.cooldown, snapshot.now)
        const isNear = (target: Entry["snapshot"]["targets"][number]["ref"]) =>
          rule !== false &&
          mayProbe(cooldowns, target, action.until, (length) =>
            Math.min(Duration.toMillis(rule.atMost), rule.share * length)
          )
        const isReady = snapshot.targets.some(
          ({ ref }) =>
            (Cooldown.outOf(cooldowns, ref, action.until) === undefined || isNear(ref)) &&
            (Log.refusalAt(after, ref)?.until ?? 0) <= action.until
        )
        assert.isTrue(isReady)
      }
    })
  })

  it("the call ends even if others take every target away at every wake", () => {
    const ref = { id: "a", provider: "p", model: "m", endpoint: "", key: "" }
    const turn: Turn = {
      ...calm,
      outcome: "kept away",
      failure: failed(new FailoverReason.Overloaded()),
      other: [0, 1]
    }
    const { entries } = play(RecoveryPolicy.background, [{ ref, info: {}, renewable: false }], ordinary, [
      turn
    ])
    assert.isTrue(entries.every(({ action }) => action._tag === "Wait" || action._tag === "GiveUp"))
    assert.strictEqual(entries.at(-1)?.action._tag, "GiveUp")
  })

  it("after a silence that used up the time, a target that was asked is not asked again when the next one refuses", () => {
    const views = viewsOf("m1", "m2")
    const silent = failed(new FailoverReason.Timeout({ phase: "total", local: true }))
    const { entries } = play(RecoveryPolicy.interactive, views, ordinary, [
      { ...calm, failure: silent, elapsed: 600_000 },
      { ...calm, outcome: "kept away" },
      calm
    ])
    assert.deepStrictEqual(
      entries.map(({ action }) => action._tag),
      ["Attempt", "Switch", "GiveUp"]
    )
  })

  it("after a silence that used up the time, no target is asked after one that spoke and fell silent", () => {
    const views = viewsOf("m1", "m2", "m3")
    const silent = failed(new FailoverReason.Timeout({ phase: "total", local: true }))
    const { entries } = play(RecoveryPolicy.interactive, views, ordinary, [
      { ...calm, failure: silent, elapsed: 600_000 },
      { ...calm, failure: silent, elapsed: 900_000, commit: "text" },
      calm
    ])
    assert.deepStrictEqual(
      entries.map(({ action }) => action._tag),
      ["Attempt", "Switch", "GiveUp"]
    )
  })

  it("the call ends even if a circuit keeps refusing with a wait of zero", () => {
    const ref = { id: "a", provider: "p", model: "m", endpoint: "", key: "" }
    const turn: Turn = { ...calm, outcome: "kept away", refusal: 0 }
    const short = { ...RecoveryPolicy.interactive, deadline: Duration.millis(100) }
    const { entries } = play(short, [{ ref, info: {}, renewable: false }], ordinary, [turn])
    assert.strictEqual(entries.at(-1)?.action._tag, "GiveUp")
  })
})

describe("a cooldown", () => {
  const ref = { id: "a", provider: "p", model: "m", endpoint: "e", key: "k" }
  const rateLimit = failed(new FailoverReason.RateLimit())
  const openAt = (cooldowns: Cooldown.Cooldowns, now: number, until: number) =>
    Cooldown.open(cooldowns, { scope: "key", target: ref, until, failure: rateLimit }, now)

  it("that is open is not lengthened by failures inside it", () => {
    fc.assert(
      fc.property(fc.nat(1_000), fc.nat(1_000), fc.nat(10_000), (length, later, more) => {
        const first = openAt(Cooldown.empty, 0, length)
        const second = openAt(first, Math.min(later, length - 1), length + more)
        if (length > 0) assert.strictEqual(Cooldown.outOf(second, ref, 0)?.until, length)
      })
    )
  })

  it("grows from one to the next, up to its cap, until a success", () => {
    const rule = RecoveryPolicy.interactive.rows.Auth.cooldown
    assert.isDefined(rule)
    let cooldowns = Cooldown.empty
    const lengths: Array<number> = []
    for (let now = 0; lengths.length < 5;) {
      const length = Cooldown.length(rule, Cooldown.streakOf(cooldowns, "key", ref))
      lengths.push(length / 60_000)
      cooldowns = openAt(cooldowns, now, now + length)
      now += length
    }
    assert.deepStrictEqual(lengths, [10, 20, 40, 60, 60])
    cooldowns = Cooldown.clear(cooldowns, ref, Infinity)
    assert.strictEqual(Cooldown.streakOf(cooldowns, "key", ref), 0)
  })

  it("that opened during an attempt survives the success of that attempt", () => {
    const cooldowns = openAt(Cooldown.empty, 100, 200)
    assert.strictEqual(Cooldown.clear(cooldowns, ref, 99), cooldowns)
    assert.isUndefined(Cooldown.outOf(Cooldown.clear(cooldowns, ref, 100), ref, 150))
  })
})
