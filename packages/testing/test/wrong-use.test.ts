/** The error messages for wrong use of this package. */
import { Effect } from "effect"
import { assert, it } from "vitest"
import { FailoverReason } from "@outlast/agent"
import { FakeProvider, FaultPlan, ScriptedModel, SimulatedFailure } from "@outlast/testing"

/** Input from plain JavaScript, whatever the types require. */
const untyped = (value: unknown): never => value as never
/** A plan or options from a file. */
const json = (text: string): never => untyped(JSON.parse(text))

const plan: FaultPlan.FaultPlan = { answers: [{ text: "hello" }] }
const target = { provider: "anthropic", model: "claude-sonnet-4-5", plan }
const key = "sk-ant-api03-9f8e7d6c5b4a39281706"

const scripted = (options: unknown) => Effect.suspend(() => ScriptedModel.make(untyped(options)))
const fake = (options: unknown) => Effect.scoped(Effect.suspend(() => FakeProvider.make(untyped(options))))
const started = (plan: unknown) => FaultPlan.start(untyped(plan))
const armed = (options: unknown) =>
  Effect.flatMap(SimulatedFailure.make, ({ arm }) => arm("rate_limit", untyped(options)))
const failing = (tag: unknown, retryAfter?: unknown) =>
  Effect.suspend(() => SimulatedFailure.failureOf(untyped(tag), untyped(retryAfter)))
const notAPlan = (problems: string) => `This is not a fault plan.\n${problems}`

const rows: ReadonlyArray<readonly [wrong: Effect.Effect<unknown, unknown>, message: string]> = [
  // Plans, from code and from JSON
  [started(undefined), notAPlan("Expected object")],
  [
    started({ faults: [{ when: { provider: "Anthropic" }, fault: { type: "reset" } }], answers: [] }),
    notAPlan(`the provider is called "anthropic"\n  at ["faults"][0]["when"]["provider"]`)
  ],
  [started({}), notAPlan(`Missing key\n  at ["answers"]`)],
  [started({ answers: "hello" }), notAPlan(`Expected array\n  at ["answers"]`)],
  [started(FaultPlan.start(plan)), notAPlan("It is an Effect: yield it, and give what it gives.")],
  [
    started({ faults: [{ type: "reset" }], answers: [] }),
    notAPlan(
      `Expected no excess property\n  at ["faults"][0]["type"]\nMissing key\n  at ["faults"][0]["fault"]`
    )
  ],
  [
    started({ faults: [{ fault: { type: "timeout" } }], answers: () => ({ text: "hello" }) }),
    notAPlan(
      `Expected a fault: status, reset, cut, stall, stream-error, slow, garbage, finish or repeat\n  at ["faults"][0]["fault"]`
    )
  ],
  [
    started({ answers: [{ texts: "hello" }] }),
    notAPlan(`Expected no excess property\n  at ["answers"][0]["texts"]`)
  ],
  [
    FaultPlan.decode(json(`{ "answer": "hello" }`)),
    notAPlan(`Expected no excess property\n  at ["answer"]\nMissing key\n  at ["answers"]`)
  ],
  [
    FaultPlan.decode(
      json(`{ "faults": [{ "fault": { "type": "status", "status": "429" } }], "answers": [] }`)
    ),
    notAPlan(`Expected number\n  at ["faults"][0]["fault"]["status"]`)
  ],
  // ScriptedModel
  [scripted("claude"), `ScriptedModel: options must be an object, got "claude"`],
  [scripted({ provider: "anthropic", plan }), "ScriptedModel: model is missing"],
  [scripted({ provider: "anthropic", model: "m" }), "ScriptedModel: plan is missing"],
  [
    scripted({ ...target, answers: [] }),
    `ScriptedModel: "answers" is not an option. Options: provider, model, plan, keys, info, endpoint`
  ],
  [
    scripted({ ...target, keys: [key] }),
    `ScriptedModel: keys[0] must be a KeySource, for example KeySource.env("NAME")`
  ],
  [scripted({ ...target, info: 200_000 }), "ScriptedModel: info must be an object, got 200000"],
  [scripted({ ...target, plan: [{ text: "hello" }] }), notAPlan("Expected object")],
  // FakeProvider
  [
    fake(plan),
    `FakeProvider: "answers" is not an option. Options: plan, strict, keys, models, organisation, windows, port`
  ],
  [fake({}), "FakeProvider: plan is missing"],
  [fake({ plan, strict: "no" }), `FakeProvider: strict must be true or false, got "no"`],
  [fake({ plan, keys: [key] }), "FakeProvider: keys must be an object"],
  [fake({ plan, keys: { anthropic: key } }), "FakeProvider: keys.anthropic must be a list"],
  [
    fake({ plan, models: { mistral: ["m"] } }),
    `FakeProvider: "models.mistral" is not an option. Options: anthropic, openai, google`
  ],
  [
    fake({ plan, windows: json(`{ "claude-sonnet-4-5": "200k" }`) }),
    `FakeProvider: windows.claude-sonnet-4-5 must be an integer of at least 1, got "200k"`
  ],
  [
    fake({ plan, organisation: "acme" }),
    `FakeProvider: organisation must be a function (key) => string, got "acme"`
  ],
  [
    Effect.scoped(Effect.map(FakeProvider.make({ plan }), ({ baseUrl }) => baseUrl(untyped("claude")))),
    `FakeProvider.baseUrl: provider must be "anthropic" or "openai" or "google", got "claude"`
  ],
  [armed({ times: 0 }), "SimulatedFailure.arm: times must be an integer of at least 1, got 0"],
  [
    failing("rate_limit"),
    `SimulatedFailure.failureOf: tag must be ${FailoverReason.reasonTags.map((tag) => `"${tag}"`).join(" or ")}, got "rate_limit"`
  ],
  [
    failing("RateLimit", "soon"),
    `SimulatedFailure.failureOf: retryAfter must be a finite duration of at least 0, got "soon"`
  ]
]

it.each(rows.map(([wrong, message]) => ({ wrong, message })))(
  "is refused: $message",
  async ({ wrong, message }) => {
    const error: unknown = await Effect.runPromise(wrong).then(
      () => assert.fail("was accepted"),
      (error: unknown) => error
    )
    assert.strictEqual(error instanceof Error ? error.message : error, message)
    assert.notInclude(`${String(error)} ${JSON.stringify(error)}`, "9f8e7d6c")
  }
)

it("a plan may have a function for its answers", () => {
  assert.doesNotThrow(() =>
    Effect.runSync(FaultPlan.start({ faults: [], answers: () => ({ text: "hello" }) }))
  )
})
