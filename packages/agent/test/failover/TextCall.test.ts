import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Outlast } from "@outlast/agent"
import { answer, finish, inTime, played, policy, recording, timesOf, toolCall } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

it.effect("a whole answer without a finish, or with the finish reason error, is a failure", () =>
  Effect.gen(function* () {
    const { layer, of } = recording()
    const target = played({
      answers: [Effect.succeed([{ type: "text", text: "cut" }]), answer("broken", "error"), answer("hello")]
    })
    const response = yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy })))).pipe(
      Effect.provide(layer)
    )
    assert.strictEqual(response.text, "hello")
    assert.deepStrictEqual(
      of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
      [
        ["Format", "answer/no-finish"],
        ["ServerError", "answer/finish-error"]
      ]
    )
  })
)

it.effect("an answer without a finish in which the provider ran a tool is never requested again", () =>
  Effect.gen(function* () {
    const search = toolCall("1", { providerExecuted: true })
    const target = played({ answers: [Effect.succeed([search]), answer("again")] })
    const second = played({ model: "m2", answers: [answer("again")] })
    yield* inTime(Effect.exit(ask).pipe(Effect.provide(Failover.layer([target, second], { policy }))))
    assert.deepStrictEqual([target.requests.length, second.requests.length], [1, 0])
  })
)

it.effect("a whole answer has ten minutes, for models that think and others", () =>
  Effect.gen(function* () {
    for (const reasoning of [false, true]) {
      const { layer, of } = recording()
      const first = played({
        model: "m1",
        info: { reasoning },
        answers: [Effect.delay(answer("late"), 600_001)]
      })
      const second = played({
        model: "m2",
        info: { reasoning },
        answers: [Effect.delay(answer("hello"), 599_999)]
      })
      const response = yield* inTime(
        ask.pipe(Effect.provide(Failover.layer([first, second], { policy })))
      ).pipe(Effect.provide(layer))
      assert.strictEqual(response.text, "hello")
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ rule, elapsed }) => [rule, elapsed]),
        [["limit/total", 600_000]]
      )
    }
  })
)

it.effect("a request is aborted at its time limit and when the caller is interrupted", () =>
  Effect.gen(function* () {
    let open = 0
    const never = Effect.acquireUseRelease(
      Effect.sync(() => ++open),
      () => Effect.never,
      () => Effect.sync(() => --open)
    )
    const first = played({ model: "m1", answers: [never] })
    const second = played({ model: "m2", answers: [never] })
    const fiber = yield* Effect.forkChild(
      ask.pipe(Effect.provide(Failover.layer([first, second], { policy })))
    )
    yield* TestClock.adjust("599999 millis")
    assert.deepStrictEqual([open, second.requests.length], [1, 0])
    yield* TestClock.adjust("2 millis")
    assert.deepStrictEqual([open, second.requests.length], [1, 1])
    yield* Fiber.interrupt(fiber)
    assert.strictEqual(open, 0)
  })
)

it.effect(
  "the first text and the finish name the target that answered, every part names its author, beside the provider's metadata",
  () =>
    Effect.gen(function* () {
      const signed = { vendor: { id: "1" } }
      const target = played({
        answers: [
          Effect.succeed([
            { type: "text", text: "a", metadata: signed },
            { type: "text", text: "b" },
            { ...finish(), metadata: signed }
          ])
        ]
      })
      const { content } = yield* ask.pipe(Effect.provide(Failover.layer([target], { policy })))
      assert.deepStrictEqual(
        content.map((part) => [part.type, Object.keys(part.metadata)]),
        [
          ["text", ["vendor", "outlast"]],
          ["text", ["outlast"]],
          ["finish", ["vendor", "outlast"]]
        ]
      )
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(content)).attempts, 1)
      assert.deepStrictEqual(timesOf(target), [0])
    })
)
