/**
 * Proof that a model or an endpoint is out: rules by example, and compared with the whole history of the attempts.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import type { TargetRef } from "#agent/conversation/TargetRef"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { ChainMemory } from "#agent/failover/chain/ChainMemory"
import * as Evidence from "#agent/failover/chain/Evidence"
import type { Flight } from "#agent/failover/chain/TargetLog"
import { TargetLog } from "#agent/failover/chain/TargetLog"
import type { CooldownRule, Scope } from "#agent/failover/decide/RecoveryPolicy"
import { interactive } from "#agent/failover/decide/RecoveryPolicy"
import * as Sweeps from "../../../../test/sweeps.ts"
import { failureOf, flightOf } from "./chainSupport.ts"

const target = (model: string, key: string, endpoint = "one"): TargetRef => ({
  id: `${endpoint}/${model}#${key}`,
  provider: "vendor",
  model,
  endpoint,
  key
})

const a = target("m", "A")
const b = target("m", "B")
const other = target("m2", "A")

const timeout = (phase: FailoverReason.Timeout["phase"], more: { local?: boolean; silent?: boolean } = {}) =>
  ProviderFailure.local("test", new FailoverReason.Timeout({ phase, local: true, ...more }), a)

describe("silence", () => {
  const inFlight = (...flights: ReadonlyArray<Partial<Flight>>): ReadonlySet<Flight> =>
    new Set(flights.map((flight) => flightOf(a, 0, flight)))

  it("is a local limit that passed for a connection, a first token, or a whole answer without content", () => {
    const silent = (failure: ProviderFailure.ProviderFailure) =>
      Evidence.isSilence(failure, new TargetLog(a), 0, inFlight())
    assert.deepStrictEqual(
      [
        timeout("connect"),
        timeout("first-token"),
        timeout("total", { silent: true }),
        timeout("total"),
        timeout("idle"),
        timeout("connect", { local: false }),
        ProviderFailure.local("test", new FailoverReason.Network(), a)
      ].map(silent),
      [true, true, true, false, false, false, false]
    )
  })

  it("is contradicted by progress of another attempt at the same target, and not at another one", () => {
    const isSilence = (flying: ReadonlySet<Flight>, progressedAt = -Infinity) => {
      const log = new TargetLog(a)
      log.progressedAt = progressedAt
      return Evidence.isSilence(timeout("first-token"), log, 5, flying)
    }
    assert.isTrue(isSilence(inFlight(), 4))
    assert.isFalse(isSilence(inFlight(), 5))
    assert.isFalse(isSilence(inFlight({}, { firstTokenAt: 1 })))
    assert.isTrue(isSilence(inFlight({}, { target: b, firstTokenAt: 1 })))
  })

  it("is contradicted by headers for a whole answer, and not for a stream", () => {
    const heard = inFlight({ isHeard: true })
    assert.isTrue(Evidence.isSilence(timeout("first-token"), new TargetLog(a), 0, heard))
    assert.isFalse(Evidence.isSilence(timeout("total", { silent: true }), new TargetLog(a), 0, heard))
  })
})

// -----------------------------------------------------------------------------
// Failures of several calls
// -----------------------------------------------------------------------------

const ruleOf = (scope: Scope): CooldownRule => {
  const rule = interactive.rows.Network.cooldown
  assert.isDefined(rule)
  return { ...rule, scope, proof: "several-calls" }
}

const scopes: ReadonlyArray<Scope> = ["model", "endpoint"]
const rules = { model: ruleOf("model"), endpoint: ruleOf("endpoint") }

/** A chain whose attempts begin, fail and succeed at will. */
const chain = () => {
  const memory = new ChainMemory(a, false, interactive.pacing)
  return {
    memory,
    begin: (at: TargetRef, call: number, startedAt: number): Flight => {
      const flight = flightOf(at, startedAt, { call })
      memory.began(flight)
      return flight
    },
    fail: (flight: Flight, scope: "model" | "endpoint" = "model") =>
      memory.failed(flight, failureOf("ServerError"), {
        rule: rules[scope],
        probedAt: undefined,
        conversation: undefined,
        now: 0
      }),
    succeed: (flight: Flight) =>
      memory.succeeded(flight, { target: flight.target.id, elapsed: 0, now: 0 }, undefined)
  }
}

describe("the failures of two calls", () => {
  it("are proof for the model of two keys, and one call's failures at both are not", () => {
    const { begin, fail } = chain()
    assert.isFalse(fail(begin(a, 1, 0)))
    assert.isFalse(fail(begin(b, 1, 1)))
    assert.isTrue(fail(begin(b, 2, 2)))
  })

  it("are no proof while an attempt is in flight that began since the first of them", () => {
    const { begin, fail, memory } = chain()
    begin(b, 9, 0)
    const third = begin(b, 3, 5)
    assert.isFalse(fail(begin(a, 1, 1)))
    assert.isFalse(fail(begin(a, 2, 6)))
    memory.interrupted(third)
    assert.isTrue(fail(begin(a, 2, 7)))
  })

  it("are no proof when an attempt that began between them succeeded, even before the first one failed", () => {
    const { begin, fail, succeed } = chain()
    const slow = begin(a, 1, 0)
    succeed(begin(b, 2, 1))
    assert.isFalse(fail(slow))
    assert.isFalse(fail(begin(a, 3, 2)))
    assert.isTrue(fail(begin(a, 4, 3)))
  })

  it("stay proof when a success that began before both of them ends late", () => {
    const { begin, fail, succeed } = chain()
    assert.isFalse(fail(begin(a, 1, 0)))
    const slow = begin(b, 2, 1)
    assert.isFalse(fail(begin(b, 3, 2)))
    succeed(slow)
    assert.isTrue(fail(begin(b, 4, 3)))
  })

  it("are no proof when one of them began before an operator brought a target back", () => {
    const { begin, fail, memory } = chain()
    const slow = begin(b, 2, 0)
    assert.isFalse(fail(begin(a, 1, 0)))
    memory.reset([a], 1)
    assert.isFalse(fail(begin(a, 3, 2)))
    assert.isFalse(fail(slow))
    assert.isTrue(fail(begin(b, 4, 3)))
  })
})

// -----------------------------------------------------------------------------
// Against the whole history
// -----------------------------------------------------------------------------

const targets = [a, b, other, target("m", "A", "two")]

const command = fc.record({
  what: fc.constantFrom("begin", "begin", "fail", "fail", "fail", "succeed", "abandon"),
  which: fc.nat(10),
  target: fc.nat(targets.length - 1),
  call: fc.nat(3),
  scope: fc.constantFrom("model" as const, "endpoint" as const),
  after: fc.nat(2)
})

/** An attempt that has ended; `scope` of the rule for its failure. */
interface Ended {
  readonly flight: Flight
  readonly scope: Scope | undefined
}

/**
 * `may`: failures of two calls stand, and nothing that began since the first of them succeeded or is in flight. `must`: the
 * same is true of all failures that stand, and two calls failed since the last success.
 */
const provenBy = (
  history: ReadonlyArray<Ended>,
  flying: ReadonlyArray<Flight>,
  scope: Scope,
  at: TargetRef
): { readonly may: boolean; readonly must: boolean } => {
  const covers = ({ target }: Flight) => Cooldown.covers(scope, at, target)
  const ended = history.filter(({ flight }) => covers(flight))
  const successes = ended.filter((one) => one.scope === undefined)
  const succeededStart = Math.max(...successes.map(({ flight }) => flight.startedAt))
  const stands = (one: Ended) => one.scope === scope && one.flight.startedAt > succeededStart
  const flyingStart = Math.max(...flying.filter(covers).map(({ startedAt }) => startedAt))
  const callsOf = (some: ReadonlyArray<Ended>) => new Set(some.map(({ flight }) => flight.call)).size
  const standing = ended.filter(stands)
  const last = ended.findLastIndex((one) => one.scope === undefined)
  return {
    may: callsOf(standing.filter(({ flight }) => flight.startedAt > flyingStart)) >= 2,
    must:
      callsOf(ended.slice(last + 1).filter(stands)) >= 2 &&
      standing.every(({ flight }) => flight.startedAt > flyingStart)
  }
}

it("the failures of two calls are proof, unless a later attempt succeeded or is in flight", () => {
  let proven = 0
  fc.assert(
    fc.property(fc.array(command, { minLength: 20, maxLength: 60 }), (commands) => {
      const { memory, begin, fail, succeed } = chain()
      let flying: ReadonlyArray<Flight> = []
      const ended: Array<Ended> = []
      let now = 0
      for (const { what, which, target: t, call, scope, after } of commands) {
        now += after
        if (what === "begin") {
          flying = [...flying, begin(targets[t] ?? a, call, now)]
          continue
        }
        const flight = flying[which % Math.max(1, flying.length)]
        if (flight === undefined) continue
        flying = flying.filter((one) => one !== flight)
        if (what === "fail") {
          ended.push({ flight, scope })
          fail(flight, scope)
        } else if (what === "succeed") {
          ended.push({ flight, scope: undefined })
          succeed(flight)
        } else memory.interrupted(flight)
        const logs = [...memory.targetLogs.values()]
        for (const each of scopes) {
          for (const one of targets) {
            const { may, must } = provenBy(ended, flying, each, one)
            const covered = logs.filter((log) => Cooldown.covers(each, one, log.target))
            const isProven = Evidence.isProven(covered, each, one, memory.flying, interactive.pacing.provenBy)
            if (isProven) proven++
            assert.isTrue(isProven ? may : !must)
          }
        }
        for (const { doubts } of logs)
          assert.isAtMost(doubts.length, interactive.pacing.provenBy * scopes.length)
      }
    }),
    { numRuns: Sweeps.runs(1_000) }
  )
  assert.isAbove(proven, 100)
})
