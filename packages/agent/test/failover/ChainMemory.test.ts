/** The logs of a chain's targets: what the state machine reads from them, and their size. */
import { assert, describe, it } from "@effect/vitest"
import { ChainMemory } from "#agent/failover/chain/ChainMemory"
import type { Flight } from "#agent/failover/chain/TargetLog"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { interactive } from "#agent/failover/decide/RecoveryPolicy"
import { answers, failureOf, fails, flightOf, targetOf } from "./chainSupport.ts"

const one = targetOf("opus", "KEY_1")
const two = targetOf("opus", "KEY_2")
const failure = failureOf("ServerError")

describe("the logs of a chain", () => {
  it("show the failures since the last answer, and its exact time", () => {
    const memory = new ChainMemory(one, false, interactive.pacing)
    assert.isFalse(memory.streaks.has(one.id) || memory.answeredAt.has(one.id))
    fails(memory, one, failure, 5)
    fails(memory, one, failureOf("Cancelled"), 7)
    assert.deepStrictEqual(memory.streaks.get(one.id), { failures: 2, at: 7, delay: undefined })
    answers(memory, one, 10)
    answers(memory, one, 11)
    assert.isFalse(memory.streaks.has(one.id))
    assert.strictEqual(memory.answeredAt.get(one.id), 11)
    fails(memory, two, failure, 12)
    assert.deepStrictEqual([...memory.answeredAt.values()], [11])
  })

  it("show the attempts in flight of all targets, each until it ends", () => {
    const memory = new ChainMemory(one, false, interactive.pacing)
    const flights = [one, two, two, one].map((target, i) => flightOf(target, i, { call: i }))
    for (const flight of flights) memory.began(flight)
    const shown = () => Array.from(memory.flying.values(), ({ startedAt }) => startedAt).toSorted()
    const [first, second, third, fourth] = flights
    assert.isDefined(first)
    assert.isDefined(second)
    assert.isDefined(third)
    assert.isDefined(fourth)
    assert.deepStrictEqual(shown(), [0, 1, 2, 3])
    memory.interrupted(second)
    assert.deepStrictEqual(shown(), [0, 2, 3])
    const facts = { rule: undefined, probedAt: undefined, conversation: undefined, now: 9 }
    memory.failed(third, failure, facts)
    memory.succeeded(first, { target: one.id, elapsed: 9, now: 9 }, undefined)
    memory.interrupted(second)
    assert.deepStrictEqual(shown(), [3])
    memory.interrupted(fourth)
    assert.deepStrictEqual(shown(), [])
  })

  it("show a success before a call that waits for one is let go", () => {
    const memory = new ChainMemory(one, false, interactive.pacing)
    memory.open({ scope: "key", target: one, until: 100, failure }, 0)
    const seen: Array<unknown> = []
    const mayGo = () => {
      seen.push(memory.answeredAt.get(one.id), Cooldown.outOf(memory.cooldowns.current, one, 50))
      return true
    }
    memory.retries.add({ call: 1, mayGo, go: () => {} })
    answers(memory, one, 50)
    assert.deepStrictEqual(seen, [50, undefined])
  })

  it("of 1,000 targets stay small over 100,000 attempts", () => {
    const targets = Array.from({ length: 1_000 }, (_, i) =>
      targetOf(`m${i % 10}`, `KEY_${i}`, `vendor${i % 3}`)
    )
    const memory = new ChainMemory(one, false, interactive.pacing)
    const { cooldown } = interactive.rows.ServerError
    assert.strictEqual(cooldown?.proof, "several-calls")
    const flying: Array<Flight> = []
    let proven = 0
    for (let i = 0; i < 100_000; i++) {
      const target = targets[(i * 7_919) % targets.length] ?? one
      const flight = flightOf(target, i, { call: i })
      memory.began(flight)
      flying.push(flight)
      const ended = flying.length > 50 ? flying.splice((i * 31) % 50, 1)[0] : undefined
      if (ended === undefined) continue
      if (i % 100 === 0) {
        const facts = { rule: cooldown, probedAt: undefined, conversation: undefined, now: i }
        if (memory.failed(ended, failure, facts)) proven++
      } else if (i % 10 === 1) memory.interrupted(ended)
      else memory.succeeded(ended, { target: ended.target.id, elapsed: 1, now: i }, undefined)
    }
    for (const flight of flying) memory.interrupted(flight)
    const logs = [...memory.targetLogs.values()]
    assert.isAtMost(logs.length, targets.length)
    assert.deepStrictEqual([...memory.flying.values()], [])
    assert.isAtMost(Math.max(...logs.map(({ doubts }) => doubts.length)), interactive.pacing.provenBy)
    assert.strictEqual(proven, 0)
  })
})
