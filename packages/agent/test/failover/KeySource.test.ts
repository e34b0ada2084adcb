import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import { Options } from "@outlast/resilience"
import { Cause, Config, Effect, Exit, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import { answer, played } from "../support.ts"

/** Split, so that no scanner takes this made-up key for a real one. */
const secret = ["sk-ant-", "api03-planted0123456789"].join("")
const hex = "a1b2c3d4e5f60718".repeat(2)

const keys: ReadonlyArray<string> = [
  secret,
  ["gsk_", "a1B2c3D4e5F6g7H8i9J0"].join(""),
  ["hf_", "abcdefghijklmnopqrstuvwxyz"].join(""),
  ["AIza", "SyA1234567890abcdef"].join(""),
  hex
]

/** Returns the thrown error, after checking that no way to print it shows `planted`. */
const refused = (run: () => unknown, planted: string): Options.InvalidOption => {
  try {
    run()
  } catch (error) {
    assert.instanceOf(error, Options.InvalidOption)
    const all = inspect(error, { depth: 10, showHidden: true }) + String(error) + JSON.stringify(error)
    assert.notInclude(all, planted.slice(0, 12))
    return error
  }
  return assert.fail("It was not refused.")
}

// Types do not protect a program in JavaScript, or one with a cast.
const untyped = KeySource as unknown as Record<
  "env" | "config" | "value" | "refreshing",
  (...args: ReadonlyArray<unknown>) => KeySource.KeySource
>

describe("a key where a name belongs", () => {
  const load = Effect.succeed({ value: Redacted.make("token") })
  const redacted = Redacted.make("hunter2hunter2")
  for (const planted of keys) {
    it(`is refused without quoting it: ${planted.slice(0, 6)}…`, () => {
      refused(() => KeySource.env(planted), planted)
      refused(() => KeySource.config(planted, Config.Redacted("A")), planted)
      refused(() => KeySource.value(planted, redacted), planted)
      refused(() => KeySource.refreshing(planted, { load }), planted)
      refused(() => untyped.value(planted), planted)
      refused(() => untyped.value("NAME", planted), planted)
      refused(() => untyped.config("NAME", planted), planted)
    })
  }

  it("is answered with the correct form", () => {
    const { message } = refused(() => KeySource.env(secret), secret)
    assert.include(message, "KeySource.env")
    assert.include(message, 'keys: ["ANTHROPIC_API_KEY"]')
    assert.include(message, 'KeySource.value("name", Redacted.make(key))')
  })

  it("is rejected in every other form that is not a name", () => {
    for (const wrong of ["", " A", "A B", "A-B", "1A", "A\n", "ключ", undefined, 1, null, ["A"]]) {
      refused(() => untyped.env(wrong), "planted")
    }
    for (const wrong of ["", " ", "a=b", "a\nb", "x".repeat(65), undefined, {}]) {
      refused(() => untyped.value(wrong, redacted), "planted")
    }
  })

  it.effect("in a target that is written by hand fails the layer without quoting it", () =>
    Effect.gen(function* () {
      const byHand = { name: secret, load: Effect.succeed(Redacted.make("x")) }
      for (const key of [byHand, secret as unknown as KeySource.KeySource]) {
        const target = { ...played({ answers: [answer("hello")] }), keys: [key] }
        const program = LanguageModel.generateText({ prompt: "x" })
        const exit = yield* Effect.exit(Effect.provide(program, Failover.layer([target])))
        assert.isTrue(Exit.isFailure(exit))
        const cause = Exit.isFailure(exit) ? exit.cause : Cause.empty
        assert.instanceOf(Cause.squash(cause), Options.InvalidOption)
        assert.notInclude(Cause.pretty(cause) + inspect(cause, { depth: 10 }), secret)
      }
    })
  )
})

describe("KeySource.value", () => {
  it.effect("accepts a Redacted alone, or with a name", () =>
    Effect.gen(function* () {
      const key = Redacted.make("hunter2")
      assert.strictEqual(KeySource.value(key).name, KeySource.defaults.name)
      assert.strictEqual(KeySource.value("mine", key).name, "mine")
      assert.strictEqual(Redacted.value(yield* KeySource.value(key).load), "hunter2")
    })
  )

  it.effect("is a missing key when the Redacted is empty", () =>
    Effect.gen(function* () {
      // Same as `Redacted.make(process.env.KEY!)` with an unset variable.
      const notSet = Redacted.make(undefined as unknown as string)
      assert.strictEqual(Redacted.value(yield* KeySource.value(notSet).load), "")
    })
  )
})

it.effect("a refreshed key that is not a Redacted is rejected without quoting it", () =>
  Effect.gen(function* () {
    for (const token of [{ value: secret }, secret, undefined, {}]) {
      // Types do not protect a function in JavaScript, or one with a cast.
      const load = Effect.succeed(token as unknown as KeySource.Token)
      const exit = yield* Effect.exit(KeySource.refreshing("OAUTH", { load }).load)
      const cause = Exit.isFailure(exit) ? exit.cause : assert.fail("It was taken.")
      const error = Cause.squash(cause)
      assert.instanceOf(error, KeySource.KeyError)
      assert.include(String(error), "not a Redacted")
      assert.notInclude(inspect(cause, { depth: 10 }) + Cause.pretty(cause), secret)
    }
  })
)

it("wrong options of a refreshed key are rejected without quoting them", () => {
  const load = Effect.succeed({ value: Redacted.make("token") })
  for (const [options, field] of [
    [undefined, "options"],
    [null, "options"],
    ["hunter2", "options"],
    [[load], "options"],
    [{}, "load"],
    [{ load: "hunter2" }, "load"],
    [{ load: async () => "hunter2" }, "load"],
    [{ load: Promise.resolve("hunter2") }, "load"],
    [{ load, margn: "1 minute" }, "margn"]
  ] as const) {
    const error = refused(() => untyped.refreshing("OAUTH", options), "hunter2")
    assert.include(error.message, "KeySource.refreshing: ")
    assert.strictEqual(error.field, field)
  }
  assert.include(
    refused(() => untyped.refreshing("O", { load: () => "hunter2" }), "hunter2").message,
    "got a function"
  )
})

it.effect("a refreshed key fails when its expiresAt is not a time in milliseconds", () =>
  Effect.gen(function* () {
    const loaded = (expiresAt: unknown) => {
      const load = Effect.succeed({ value: Redacted.make("token"), expiresAt: expiresAt as number })
      return KeySource.refreshing("OAUTH", { load }).load
    }
    for (const wrong of ["2026-01-01T00:00:00Z", new Date(0), null]) {
      assert.include(String(yield* Effect.flip(loaded(wrong))), "(its expiresAt is not a number)")
    }
    // The test clock begins at 0.
    yield* loaded(60_000)
    yield* TestClock.setTime(1_760_000_000_000)
    const error = yield* Effect.flip(loaded(1_760_003_600))
    assert.include(
      error.message,
      "The key OAUTH could not be refreshed (its expiresAt is in seconds, not in milliseconds)."
    )
    const inSeconds = Effect.succeed({ value: Redacted.make("token"), expiresAt: 1_760_003_600 })
    const keys = [KeySource.refreshing("OAUTH", { load: inSeconds })]
    const target = { ...played({ answers: [answer("hello")] }), keys }
    const program = LanguageModel.generateText({ prompt: "x" })
    const failed = yield* Effect.flip(Effect.provide(program, Failover.layer([target])))
    assert.include(failed.message, "the key could not be loaded (its expiresAt is in seconds")
    for (const right of [1_760_003_600_000, Infinity, Number.NaN, undefined]) yield* loaded(right)
  })
)

it.effect("a key that consists of blanks counts as unset", () =>
  Effect.gen(function* () {
    const blank = Redacted.make(" \n")
    const load = Effect.succeed({ value: blank })
    const error = yield* Effect.flip(KeySource.refreshing("OAUTH", { load }).load)
    assert.include(String(error), "empty")
    const target = { ...played({ answers: [answer("hello")] }), keys: [KeySource.value("BLANK", blank)] }
    const program = LanguageModel.generateText({ prompt: "x" })
    const failed = yield* Effect.flip(Effect.provide(program, Failover.layer([target])))
    assert.include(failed.message, "the key is not set. Set BLANK")
  })
)

it("two keys with the same name in one target are rejected", () => {
  const token = KeySource.value("TOKEN", Redacted.make("x"))
  const other = KeySource.value("TOKEN", Redacted.make("y"))
  const message = (keys: ReadonlyArray<unknown>) =>
    refused(() => KeySource.fromOption("M", keys), "x-x-x").message
  assert.strictEqual(
    message(["A", "B", "A"]),
    "M: keys[2] names the key A twice: it is keys[0] already. Name each key once."
  )
  assert.include(message([token, token]), "names the key TOKEN twice")
  assert.lengthOf(KeySource.fromOption("M", [token, other]), 2)
})
