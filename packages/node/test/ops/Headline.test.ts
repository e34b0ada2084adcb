/** The first line of the status page. `test/ops/situations.test.ts` has it for real programs. */
import { assert, describe, it } from "@effect/vitest"
import type { Ops } from "@outlast/node/ops"
import * as Headline from "#node/ops/Headline"

const now = Date.UTC(2026, 0, 1, 14, 10)
const ready = { isReady: true, passed: [], reasons: [] }

const of = (state: Partial<Headline.Described>): Ops.Headline =>
  Headline.of({ at: now, status: "running", readiness: ready, sections: {}, operators: [], ...state })

const target = (provider: string, rest: Readonly<Record<string, string | number | boolean | null>> = {}) => ({
  id: `${provider}/m#k`,
  provider,
  model: "m",
  key: "k",
  state: "ready",
  ...rest
})

const dead = target("openai", {
  state: "dead",
  reason: "Auth",
  message: "the key was refused (HTTP 401)",
  advice: "Set k to a valid key.",
  needsPerson: true
})
const cooling = target("anthropic", {
  state: "cooling",
  reason: "Overloaded",
  message: "the provider is overloaded (HTTP 529)",
  until: now + 12_000,
  nextTry: now + 8_000
})
const activity = {
  running: [],
  recent: [],
  circuits: [],
  notices: [],
  histories: [{ target: cooling.id, failingSince: now - 480_000 }]
}

describe("the headline", () => {
  it("says that no model can answer, then what a person must do, then what comes back by itself", () => {
    const { level, text } = of({ sections: { targets: [cooling, dead], activity } })
    assert.strictEqual(level, "bad")
    assert.strictEqual(
      text,
      "No model can answer; next try in 8 s. openai (key k): the key was refused (HTTP 401). Set k to a valid key. anthropic/m: the provider is overloaded (HTTP 529) since 14:02 UTC; next try in 8 s."
    )
  })

  it("is amber while another target answers, and red where a person must act", () => {
    assert.strictEqual(of({ sections: { targets: [cooling, target("openai")] } }).level, "warn")
    assert.strictEqual(of({ sections: { targets: [dead, target("anthropic")] } }).level, "bad")
  })

  it("names a route of a gateway whose targets are all out, unless no model can answer anyway", () => {
    const out = { route: "smart", wire: "chat", ready: [], until: now + 8_000 }
    const fast = { route: "fast", wire: "messages", ready: ["openai/m#k"], until: null }
    const one = of({ sections: { targets: [cooling, target("openai")], routes: [out, fast] } })
    assert.include(one.text, "Route smart (chat) cannot answer: all its targets are out; next try in 8 s.")
    assert.notInclude(one.text, "fast")
    assert.strictEqual(one.level, "bad")
    assert.notInclude(of({ sections: { targets: [cooling], routes: [out] } }).text, "Route")
    const doubtful = { ...out, ready: [cooling.id] }
    const targets = [target("anthropic"), target("openai")]
    assert.include(
      of({ sections: { targets, activity, routes: [doubtful] } }).text,
      "Route smart (chat) has not answered since its last failure."
    )
  })

  it("is not well between two cooldowns of a target that has not answered", () => {
    const failing = { ...activity, histories: [{ target: "anthropic/m#k", failingSince: now - 1 }] }
    const { level, parts } = of({ sections: { targets: [target("anthropic")], activity: failing } })
    assert.strictEqual(level, "bad")
    assert.match(parts[0]?.text ?? "", /No model has answered since its last failure/)
  })

  it("is well without sections, and ignores sections of another shape", () => {
    assert.strictEqual(of({}).text, "All is well.")
    assert.strictEqual(
      of({ sections: { targets: "many", activity: 3, tasks: { error: "late" } } }).level,
      "good"
    )
  })

  it("names the operator who opened a circuit, until it is closed by hand", () => {
    const circuits = [{ circuit: "openai", phase: "open", until: now + 1_000 }]
    const action = (name: string, at: number) =>
      ({ _tag: "OperatorAction", at, action: name, subject: "openai", outcome: "done" }) as const
    const opened = of({ sections: { circuits }, operators: [action("trip", now - 60_000)] })
    assert.match(
      opened.text,
      /^An operator opened the circuit openai: it has been open since 14:09 UTC; next probe in 1 s\./
    )
    // The circuit opened again by itself.
    const again = of({
      sections: { circuits },
      operators: [action("reset", now - 1), action("trip", now - 60_000)]
    })
    assert.match(again.text, /^Circuit openai is open; next probe/)
  })

  it("says why the program is not ready, and that it shuts down", () => {
    const readiness = { isReady: false, passed: [], reasons: [{ name: "lock", reason: "held by another" }] }
    assert.strictEqual(of({ readiness }).text, "Not ready: lock: held by another.")
    assert.match(of({ status: "draining", readiness }).text, /^The program is shutting down \(draining\)\./)
  })

  it("names the calls that fail while every target is ready, by the first sentence of the last message", () => {
    const failed = {
      outcome: "failed",
      endedAt: now - 1_000,
      message: "Failed after 3 attempts: too large. Back in 6m.\n\nmore"
    }
    const { level, text } = of({
      sections: { activity: { ...activity, histories: [], recent: [failed, failed, failed] } }
    })
    assert.strictEqual(level, "bad")
    assert.match(text, /^The last 3 calls failed: Failed after 3 attempts: too large since/)
    const old = { ...failed, endedAt: now - 600_000 }
    assert.strictEqual(
      of({ sections: { activity: { ...activity, histories: [], recent: [old] } } }).level,
      "good"
    )
  })

  it("has at most a few sentences, of bounded length, on one line", () => {
    const readiness = {
      isReady: false,
      passed: [],
      reasons: Array.from({ length: 50 }, (_, i) => ({
        name: `check ${i}`,
        reason: `a\n${"b".repeat(5_000)}`
      }))
    }
    const { parts, text } = of({ readiness })
    assert.lengthOf(parts, Headline.maxParts)
    assert.match(parts.at(-1)?.text ?? "", /^45 more problems are below$/)
    assert.notInclude(text, "\n")
    assert.isBelow(text.length, 2_000)
    assert.match(parts[0]?.text ?? "", /…$/)
  })

  it("is another one when a problem comes or goes, and not when its numbers change", () => {
    const waiting = (backlog: number) => of({ sections: { outbox: { backlog, oldestAt: now - 60_000 } } })
    assert.isFalse(Headline.isOther(waiting(3), waiting(4)))
    assert.isTrue(Headline.isOther(waiting(3), of({})))
  })
})
