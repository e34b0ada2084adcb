import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { Chain, Failover, FailoverReason, KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { answer, failure, key, played, policy, recording } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))

const spec = (build: ProviderModel.TargetSpec<Error>["build"]): ProviderModel.TargetSpec<Error> => ({
  ...played({ model: "broken", keys: [key("KEY_A"), key("KEY_B")] }),
  build
})

it.effect("an entry whose build fails or dies is dead, key by key, and the others answer", () =>
  Effect.gen(function* () {
    const error = new Error("no module")
    for (const build of [Effect.fail(error), Effect.die(error)]) {
      const { of, layer } = recording()
      const works = played({ answers: [answer("hello")] })
      const { text } = yield* ask.pipe(
        Effect.provide(Failover.layer([spec(build), works], { policy }).pipe(Layer.provideMerge(layer)))
      )
      assert.strictEqual(text, "hello")
      assert.deepStrictEqual(
        of("TargetDead").map(({ target }) => target.id),
        ["vendor/broken#KEY_A", "vendor/broken#KEY_B"]
      )
    }
  })
)

it.effect("dead targets are named when no other is left", () =>
  Effect.gen(function* () {
    const chain = [
      spec(Effect.fail(new Error("no module"))),
      played({ keys: [key("KEY_C")], answers: [refused] })
    ] as const
    const error = yield* Effect.flip(ask.pipe(Effect.provide(Failover.layer(chain, { policy }))))
    for (const name of ["KEY_A", "KEY_B", "KEY_C"]) assert.include(error.message, name)
    const none = yield* Effect.flip(ask.pipe(Effect.provide(Failover.layer([chain[0]], { policy }))))
    assert.instanceOf(none, Chain.ChainError)
  })
)

it.effect("entries with the same key source share its refreshes", () =>
  Effect.gen(function* () {
    let loads = 0
    const source = KeySource.refreshing("OAUTH", {
      load: Effect.sync(() => ({ value: Redacted.make(`token-${++loads}`) }))
    })
    const first = played({ model: "one", keys: [source], answers: [refused, refused] })
    const second = played({ model: "two", keys: [source], answers: [answer("hello")] })
    yield* ask.pipe(Effect.provide(Failover.layer([first, second], { policy })))
    const sent = [...first.requests, ...second.requests].map(
      ({ request }) => request.key && Redacted.value(request.key)
    )
    assert.deepStrictEqual([loads, sent], [2, ["token-1", "token-2", "token-2"]])
  })
)

it.effect("the error of a key that cannot be loaded does not call it unset", () =>
  Effect.gen(function* () {
    const source = KeySource.refreshing("OAUTH", { load: Effect.fail(new Error("no server for secret-1")) })
    const layer = Failover.layer([played({ keys: [source] })], { policy })
    const { message } = yield* Effect.flip(Effect.provide(ask, layer))
    assert.include(message, "the key could not be loaded. Check the function that loads OAUTH")
    assert.notInclude(message, "secret-1")
  })
)

it.effect("a model is built once for all its keys, and not built without a key", () =>
  Effect.gen(function* () {
    let built = 0
    const counting = (keys: ReadonlyArray<KeySource.KeySource>): ProviderModel.TargetSpec => {
      const target = played({ keys, answers: [answer("hello")] })
      return { ...target, build: Effect.tap(target.build, () => Effect.sync(() => built++)) }
    }
    yield* ask.pipe(Effect.provide(Failover.layer([counting([key("KEY_A"), key("KEY_B")])], { policy })))
    assert.strictEqual(built, 1)
    const keyless = counting([KeySource.env("NOT_SET"), KeySource.value("EMPTY", Redacted.make(""))])
    yield* Effect.flip(ask.pipe(Effect.provide(Failover.layer([keyless], { policy }))))
    assert.strictEqual(built, 1)
  })
)

it.effect("two keys with the same name stay two keys, in one entry and in two", () =>
  Effect.gen(function* () {
    const source = (value: string) => KeySource.value("KEY", Redacted.make(value))
    const target = played({ keys: [source("one"), source("two")], answers: [refused, answer("hello")] })
    const other = played({ model: "m2", answers: [answer("other")] })
    const { of, layer } = recording()
    yield* ask.pipe(Effect.provide(Failover.layer([target, other], { policy })), Effect.provide(layer))
    assert.deepStrictEqual(
      target.requests.map(({ request }) => request.key && Redacted.value(request.key)),
      ["one", "two"]
    )
    assert.deepStrictEqual(
      of("TargetSwitched").map(({ from, target }) => [from.id, target.id]),
      [["vendor/m#KEY", "vendor/m#KEY~2"]]
    )
    const elsewhere = {
      ...played({ keys: [source("one")], answers: [answer("there")] }),
      endpoint: "https://two"
    }
    const here = played({
      keys: [source("one")],
      answers: [Effect.fail(failure(new FailoverReason.ModelNotFound()))]
    })
    const response = yield* ask.pipe(Effect.provide(Failover.layer([here, elsewhere], { policy })))
    assert.strictEqual(response.text, "there")
  })
)

it.effect("a target without keys shares no key cooldown with other targets", () =>
  Effect.gen(function* () {
    const first = played({ model: "m1", answers: [refused] })
    const second = played({ model: "m2", answers: [answer("hello")] })
    const third = played({ model: "m3", keys: [key("KEY_A")], answers: [answer("other")] })
    const response = yield* ask.pipe(Effect.provide(Failover.layer([first, second, third], { policy })))
    assert.strictEqual(response.text, "hello")
  })
)

describe("Chain.detect", () => {
  const anthropic = played({ model: "one", keys: [KeySource.env("A_KEY"), KeySource.env("A_KEY_2")] })
  const local = played({ model: "local" })
  const openai = played({ model: "two", keys: [KeySource.env("O_KEY")] })
  const found = (values: Record<string, string>, chain: typeof offered = offered) =>
    Effect.map(
      Effect.provide(Chain.detect(chain), ConfigProvider.layer(ConfigProvider.fromUnknown(values))),
      (all) => all.map(({ model }) => model)
    )
  const offered: readonly [typeof anthropic, ...Array<typeof anthropic>] = [anthropic, openai, local]

  it.effect("keeps the entries with a key that is set, and those that need none, in their order", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* found({ A_KEY_2: "x", O_KEY: "y" }), ["one", "two", "local"])
      assert.deepStrictEqual(yield* found({ O_KEY: "y" }), ["two", "local"])
      assert.deepStrictEqual(yield* found({ A_KEY: "  " }), ["local"])
    })
  )

  it.effect("fails with the names of all keys when none is set", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(found({}, [anthropic, openai]))
      assert.instanceOf(error, Chain.ChainError)
      for (const name of ["A_KEY", "A_KEY_2", "O_KEY"]) assert.include(error.message, name)
    })
  )
})
