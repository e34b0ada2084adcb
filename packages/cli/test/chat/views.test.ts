import { Duration } from "effect"
import { assert, describe, it } from "vitest"
import type { Targets } from "@outlast/agent"
import * as Journal from "#cli/chat/Journal"
import { printable } from "#cli/chat/Terminal"
import * as Views from "#cli/chat/Views"

const target = (
  model: string,
  key: string,
  rest: Partial<Targets.TargetStatus> = {}
): Targets.TargetStatus => ({
  target: { id: `acme/${model}#${key}`, provider: "acme", model, endpoint: "http://acme", key },
  info: {},
  state: "ready",
  availableIn: undefined,
  nextTryIn: undefined,
  reason: undefined,
  message: undefined,
  advice: undefined,
  lastSuccessAt: undefined,
  cooldowns: [],
  circuits: [],
  limits: [],
  ...rest
})

const cooling = target("big", "b", {
  state: "cooling",
  availableIn: Duration.seconds(119),
  reason: "RateLimit",
  cooldowns: [
    { scope: "key", availableIn: Duration.seconds(119), reason: "RateLimit", message: "rate limited" },
    { scope: "model", availableIn: undefined, reason: "Auth", message: "refused" }
  ]
})
const dead = target("big", "c", { state: "dead", message: "the key is missing", reason: "Auth" })

describe("the views", () => {
  it("show each target with its state and its last answer", () => {
    assert.deepStrictEqual(
      Views.profiles([target("big", "a", { lastSuccessAt: 1_000 }), cooling, dead], 31_000),
      [
        "  acme/big#a  ready    answered 30 s ago",
        "  acme/big#b  cooling  no answer yet      RateLimit, back in 119 s",
        "  acme/big#c  dead     no answer yet      Auth, until /reset"
      ]
    )
  })

  it("show all cooldowns, and the targets that only a person brings back", () => {
    assert.deepStrictEqual(Views.cooldowns([cooling, dead]), [
      "  acme/big#b  key    back in 119 s       rate limited",
      "  acme/big#b  model  until /reset        refused",
      "  acme/big#c  dead   the key is missing"
    ])
    assert.match(Views.cooldowns([target("big", "a")])[0] ?? "", /^No cooldowns/)
  })

  it("show the models in their order, and the one that is asked next", () => {
    assert.deepStrictEqual(Views.fallback([cooling, dead, target("small", "a")]), [
      "  1.  acme/big    2 keys, 0 ready",
      "  2.  acme/small  1 key, 1 ready   ← asked next"
    ])
  })

  it("show durations in the largest fitting unit", () => {
    assert.deepStrictEqual([-5, 350, 1_200, 119_000, 300_000, 86_400_000].map(Views.time), [
      "0 ms",
      "350 ms",
      "2 s",
      "119 s",
      "5 min",
      "24 h"
    ])
  })

  it("show every command in the help", () => {
    assert.include(Views.help.join("\n"), "/simulate-failure REASON [TIMES]")
    assert.strictEqual(Views.help.length, 16)
  })

  it("mark the preset that is used", () => {
    const lines = Views.presetList("s11")
    assert.deepStrictEqual(
      lines.filter((line) => line.startsWith("  *")).map((line) => line.split(/ +/)[2]),
      ["s11"]
    )
  })
})

describe("the journal", () => {
  const of = { id: "acme/big#a", provider: "acme", model: "big", endpoint: "", key: "a" }
  const events = [
    { _tag: "AttemptStarted", at: 0, call: 1, attempt: 1, target: of },
    {
      _tag: "AttemptFailed",
      at: 0,
      call: 1,
      attempt: 1,
      target: of,
      reason: "RateLimit",
      rule: "status/429",
      status: 429,
      retryAfter: 7_000,
      message: "rate limited (HTTP 429)"
    },
    { _tag: "CallWaited", at: 0, call: 1, attempt: 1, target: of, reason: "backoff", elapsed: 700 },
    { _tag: "TargetSwitched", at: 0, call: 1, attempt: 2, from: of, target: of, reason: "RateLimit" },
    {
      _tag: "CallSucceeded",
      at: 0,
      call: 1,
      attempt: 2,
      target: of,
      inputTokens: 5,
      outputTokens: 7,
      costUsd: 1
    },
    {
      _tag: "ContextCompacted",
      at: 0,
      tokens: 21_000,
      tokensAfter: 9_000,
      window: 20_000,
      reactive: true,
      tier: "plain"
    },
    { _tag: "SomethingNew", at: 0 }
  ]

  it("counts attempts, failures, waits, rotations, compactions, tokens and cost", () => {
    const { stats } = events.reduce(Journal.saw, Journal.empty)
    assert.deepStrictEqual(stats, {
      ...Journal.empty.stats,
      attempts: 1,
      failures: 1,
      waited: 700,
      rotations: 1,
      successes: 1,
      tokens: 12,
      costUsd: 1,
      compactions: 1,
      freed: 12_000
    })
  })

  it("explains the last failure: its evidence, what the call did next, and when the target is back", () => {
    const { why } = events.reduce(Journal.saw, Journal.empty)
    const out = target("big", "a", {
      state: "cooling",
      availableIn: Duration.seconds(119),
      message: "rate limited (HTTP 429)",
      advice: "Wait, or add another key."
    })
    assert.deepStrictEqual(Views.why(why, [target("small", "a"), out]), [
      "Rate limited (HTTP 429).",
      "  target   acme/big#a",
      "  reason   RateLimit",
      "  because  rule status/429, HTTP 429",
      "  wait     7 s, says the provider",
      "  then     ✓ big, $1.0000",
      "  now      cooling, back in 119 s",
      "  to do    Wait, or add another key."
    ])
    assert.match(Views.why(undefined, [])[0] ?? "", /^No call has failed or switched yet/)
  })

  it("explains a switch without a failure, and a call that asked no target", () => {
    const { why } = events.reduce(Journal.saw, Journal.empty)
    const story = (event: object) => Journal.saw({ ...Journal.empty, why }, event as never).why
    const to = { ...of, id: "acme/small#a", model: "small" }
    const switched = { _tag: "ModelChanged", call: 2, from: of, target: to, message: "Switched to small." }
    assert.deepStrictEqual(Views.why(story(switched), [target("big", "a")]), [
      "Switched to small.",
      "  target  acme/big#a",
      "  now     ready"
    ])
    const overtaken = { _tag: "AttemptOvertaken", call: 2, target: of, by: to, late: true, elapsed: 3 }
    assert.strictEqual(story(overtaken)?.happened, "Its first token was late, and acme/small#a was faster.")
    assert.strictEqual(story({ ...overtaken, late: false }), why, "a hedge that lost is no switch")
    const gaveUp = { _tag: "CallGaveUp", call: 2, message: "No target is left.\n  acme/big#a: out" }
    assert.deepStrictEqual(Views.why(story(gaveUp), []), ["No target is left.", "  acme/big#a: out"])
    assert.deepStrictEqual(story({ ...gaveUp, call: 1 })?.next, ["✓ big, $1.0000", "✗ No target is left."])
  })

  it("has a line for a compaction and for an unknown event, and none for a usual transition", () => {
    const [compacted, unknown] = events.slice(-2).map(Journal.lineOf)
    assert.strictEqual(compacted, "  reactive compact (plain): 21,000 → 9,000 tokens, window 20,000")
    assert.strictEqual(unknown, "  something new")
    const transition = (transition: string) =>
      Journal.lineOf({ _tag: "AgentTransition", at: 0, turn: 1, transition } as never)
    assert.isUndefined(transition("next_turn"))
    assert.strictEqual(transition("guard_stopped"), "  guard_stopped")
  })

  it("keeps the last lines only", () => {
    let journal = Journal.empty
    for (let n = 0; n < Journal.maxLines + 5; n++) journal = Journal.wrote(journal, `line ${n}`)
    assert.strictEqual(journal.lines.length, Journal.maxLines)
    assert.strictEqual(journal.lines[0], "line 5")
    assert.strictEqual(Views.events(journal).length, 20)
  })
})

it("control characters of a model do not reach the terminal", () => {
  assert.strictEqual(printable("a\u001b[2Jb\u0007\r\n\tc\u009b1m"), "a[2Jb\n\tc1m")
})
