import { Duration, Effect, Layer } from "effect"
import { inspect } from "node:util"
import { assert, describe, it } from "vitest"
import * as Options from "#resilience/Options"

const refusal = (f: () => unknown): Options.InvalidOption => {
  try {
    f()
  } catch (error) {
    assert.instanceOf(error, Options.InvalidOption)
    return error
  }
  assert.fail("was not refused")
}

/** The message without the module and the field, which all cases share. */
const told = (f: () => unknown): string => refusal(f).message.replace("Thing: field must be ", "")

it("an InvalidOption is a RangeError that names module, field, value and what is allowed", () => {
  const error = refusal(() => Options.share("RetryBudget", "ratio", 1.2))
  assert.instanceOf(error, RangeError)
  assert.strictEqual(error.name, "InvalidOption")
  assert.strictEqual(error.module, "RetryBudget")
  assert.strictEqual(error.field, "ratio")
  assert.strictEqual(error.value, 1.2)
  assert.strictEqual(error.allowed, "a finite number from 0 to 1")
  assert.strictEqual(error.message, "RetryBudget: ratio must be a finite number from 0 to 1, got 1.2")
})

it("check rejects a false condition", () => {
  Options.check(true, "Thing", "field", 1, "2")
  assert.strictEqual(
    told(() => Options.check(false, "Thing", "field", "1", "2")),
    `2, got "1"`
  )
})

it("a number is finite and within both ends", () => {
  const range = { min: -1, max: 2 }
  for (const n of [-1, 0, 0.5, 2]) assert.strictEqual(Options.number("Thing", "field", n, range), n)
  for (const n of [-1.001, 2.001, Number.NaN, Infinity, -Infinity]) {
    assert.strictEqual(
      told(() => Options.number("Thing", "field", n, range)),
      `a finite number from -1 to 2, got ${n}`
    )
  }
  assert.strictEqual(Options.number("Thing", "field", -1e9), -1e9)
  assert.strictEqual(
    told(() => Options.number("Thing", "field", Infinity)),
    "a finite number, got Infinity"
  )
  assert.strictEqual(
    told(() => Options.number("Thing", "field", -Infinity)),
    "a finite number, got -Infinity"
  )
  assert.strictEqual(
    told(() => Options.number("Thing", "field", 0, { min: 1 })),
    "a finite number of at least 1, got 0"
  )
  assert.strictEqual(
    told(() => Options.number("Thing", "field", 2, { max: 1 })),
    "a finite number of at most 1, got 2"
  )
})

it("an integer is whole, and a positive integer is at least 1", () => {
  assert.strictEqual(Options.integer("Thing", "field", 0, { min: 0 }), 0)
  assert.strictEqual(
    told(() => Options.integer("Thing", "field", 0.5, { min: 0 })),
    "an integer of at least 0, got 0.5"
  )
  assert.strictEqual(Options.integer("Thing", "field", -3), -3)
  assert.strictEqual(
    told(() => Options.integer("Thing", "field", Infinity)),
    "an integer, got Infinity"
  )
  assert.strictEqual(Options.positiveInteger("Thing", "field", 1), 1)
  assert.strictEqual(Options.positiveInteger("Thing", "field", 3, { max: 3 }), 3)
  for (const n of [0, -1, 1.5, Number.NaN, Infinity]) {
    assert.strictEqual(
      told(() => Options.positiveInteger("Thing", "field", n)),
      `an integer of at least 1, got ${n}`
    )
  }
  assert.strictEqual(
    told(() => Options.positiveInteger("Thing", "field", 4, { max: 3 })),
    "an integer from 1 to 3, got 4"
  )
})

it("a share is from 0 to 1", () => {
  for (const n of [0, 0.2, 1]) assert.strictEqual(Options.share("Thing", "field", n), n)
  for (const n of [-0.001, 1.001, Number.NaN]) {
    assert.strictEqual(
      told(() => Options.share("Thing", "field", n)),
      `a finite number from 0 to 1, got ${n}`
    )
  }
})

describe("a duration", () => {
  it("is read from every form of Duration.Input", () => {
    for (const input of [
      "1 second",
      1_000,
      1_000_000_000n,
      [1, 0],
      { seconds: 1 },
      Duration.seconds(1)
    ] as const) {
      assert.isTrue(Duration.Equivalence(Options.duration("Thing", "field", input), Duration.seconds(1)))
      assert.strictEqual(Options.millis("Thing", "field", input), 1_000)
    }
    assert.strictEqual(Options.millis("Thing", "field", 0), 0)
  })

  it("is finite and not negative, and NaN is not read as zero", () => {
    const cases: ReadonlyArray<readonly [Duration.Input, string]> = [
      ["-1 seconds", `"-1 seconds"`],
      [-1, "-1"],
      [-1n, "-1n"],
      [Infinity, "Infinity"],
      ["Infinity", `"Infinity"`],
      [-Infinity, "-Infinity"],
      [Number.NaN, "NaN"],
      [[Number.NaN, 0], "[NaN,0]"],
      [[0, Number.NaN], "[0,NaN]"],
      [{ seconds: 1, minutes: Number.NaN }, `{"seconds":1,"minutes":NaN}`],
      [Duration.infinity, "Infinity"],
      [Duration.seconds(-90), "-1m 30s"]
    ]
    for (const [input, shown] of cases) {
      assert.strictEqual(
        told(() => Options.duration("Thing", "field", input)),
        `a finite duration of at least 0, got ${shown}`
      )
    }
  })

  it("is rejected when unreadable, like one out of range", () => {
    for (const input of ["soon", "", "5 parsecs", null, undefined]) {
      // Input from a caller without types.
      const untyped = input as unknown as Duration.Input
      assert.strictEqual(
        told(() => Options.duration("Thing", "field", untyped)),
        `a finite duration of at least 0, got ${input === null || input === undefined ? input : JSON.stringify(input)}`
      )
    }
  })

  it("must have a known unit, because Duration reads an object without one as zero", () => {
    for (const input of [{ secs: 5 }, {}, JSON.parse(JSON.stringify(Duration.seconds(3)))]) {
      assert.throws(() => Options.duration("Thing", "field", input), Options.InvalidOption, "finite duration")
      assert.isFalse(Options.isDuration(input))
    }
    assert.strictEqual(Options.millis("Thing", "field", { minutes: 1, seconds: 5 }), 65_000)
  })

  it("is within both ends", () => {
    const range = { min: "1 second", max: "1 minute" } as const
    for (const input of ["1 second", "30 seconds", "1 minute"] as const) {
      assert.deepStrictEqual(
        Options.duration("Thing", "field", input, range),
        Duration.fromInputUnsafe(input)
      )
    }
    for (const input of [999, 60_001, Infinity]) {
      assert.strictEqual(
        told(() => Options.duration("Thing", "field", input, range)),
        `a duration from 1s to 1m, got ${input}`
      )
    }
    assert.strictEqual(
      told(() => Options.millis("Thing", "field", 0, { min: "1 second" })),
      "a finite duration of at least 1s, got 0"
    )
  })

  it("may be infinite where that is the upper end", () => {
    const range = { max: Duration.infinity }
    assert.strictEqual(Options.millis("Thing", "field", Infinity, range), Infinity)
    assert.strictEqual(
      told(() => Options.duration("Thing", "field", -1, range)),
      "a duration of at least 0, got -1"
    )
  })
})

describe("fields", () => {
  interface Thing {
    readonly size?: number | undefined
    readonly wait?: string | undefined
    readonly mode?: string | undefined
    readonly on?: boolean | undefined
    readonly run?: unknown
    readonly effect?: unknown
    readonly service?: unknown
    readonly items?: unknown
    readonly named?: unknown
    readonly nested?: unknown
    readonly some?: unknown
    readonly any?: unknown
    readonly must: string
  }
  const { is } = Options
  const checks: Options.Checks<Thing> = {
    size: is.integer({ min: 1 }),
    wait: is.duration({ max: "1 minute" }),
    mode: is.oneOf("fast", "slow"),
    on: is.flag,
    run: is.fn("(n) => number"),
    effect: is.effect,
    service: is.having("a clock, for example Clock.layer()", "now", "sleep"),
    items: is.list(is.text),
    named: is.record(is.number({ max: 9 })),
    nested: is.object<{ readonly a?: number; readonly b: { readonly c?: number } }>({
      a: is.share,
      b: is.required(is.object({ c: is.share }))
    }),
    some: is.falseOr(is.integer({ min: 1 })),
    any: is.anything,
    must: is.required(is.text)
  }
  const given = (options: unknown): string =>
    // Input from JavaScript or a JSON file.
    refusal(() => Options.fields("Thing", options as Thing, checks)).message

  it("accepts allowed values, and fields that are undefined", () => {
    const all: Thing = {
      size: 2,
      wait: "3 seconds",
      mode: "fast",
      on: false,
      run: () => 1,
      effect: Effect.void,
      service: { now: 1, sleep: 2 },
      items: ["a"],
      named: { a: 1 },
      nested: { a: 1, b: { c: 0 } },
      some: false,
      any: undefined,
      must: "x"
    }
    for (const options of [{ must: "x" }, all]) {
      assert.doesNotThrow(() => Options.fields("Thing", options, checks))
    }
  })

  it.each([
    [null, "Thing: options must be an object, got null"],
    [[], "Thing: options must be an object, got an empty list"],
    [new Map(), "Thing: options must be an object, got an instance of Map"],
    [Effect.void, "Thing: options must be an object, got an Effect"],
    [{}, "Thing: must is missing"],
    [{ must: "" }, `Thing: must must be a text that is not empty, got ""`],
    [
      { must: "x", sice: 1 },
      `Thing: "sice" is not an option. Did you mean size? Options: size, wait, mode, on, run, effect, service, items, named, nested, some, any, must`
    ],
    [{ must: "x", size: "2" }, `Thing: size must be an integer of at least 1, got "2"`],
    [{ must: "x", wait: "5 secs" }, `Thing: wait must be a duration from 0 to 1m, got "5 secs"`],
    [{ must: "x", mode: "slo" }, `Thing: mode must be "fast" or "slow", got "slo"`],
    [{ must: "x", on: "yes" }, `Thing: on must be true or false, got "yes"`],
    [{ must: "x", run: 1 }, "Thing: run must be a function (n) => number, got 1"],
    [{ must: "x", effect: () => 1 }, "Thing: effect must be an Effect, got a function"],
    [
      { must: "x", service: { now: 1 } },
      'Thing: service must be a clock, for example Clock.layer(), got {"now":1}'
    ],
    [{ must: "x", items: "a" }, `Thing: items must be a list, got "a"`],
    [{ must: "x", items: ["a", ""] }, `Thing: items[1] must be a text that is not empty, got ""`],
    [{ must: "x", named: [1] }, "Thing: named must be an object, got [1]"],
    [{ must: "x", named: { a: 10 } }, "Thing: named.a must be a finite number of at most 9, got 10"],
    [{ must: "x", nested: { a: 2, b: {} } }, "Thing: nested.a must be a finite number from 0 to 1, got 2"],
    [{ must: "x", nested: {} }, "Thing: nested.b is missing"],
    [{ must: "x", nested: { b: { d: 1 } } }, `Thing: "nested.b.d" is not an option. Options: c`],
    [{ must: "x", some: true }, "Thing: some must be false, or an integer of at least 1, got true"]
  ])("refuses %o", (options, message) => {
    assert.strictEqual(given(options), message)
  })

  it("never shows a text that may be a key, neither as a name nor as a value", () => {
    const key = "sk-ant-api03-9f8e7d6c5b4a39281706"
    const shown = (options: unknown): string => {
      const error = refusal(() => Options.fields("Thing", options as Thing, checks))
      return `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.value)} ${error.field}`
    }
    for (const options of [
      { must: "x", apiKey: key },
      { must: "x", [key]: 1 },
      { must: "x", size: key },
      { must: "x", mode: key },
      { must: "x", size: [key] },
      { must: "x", size: { key } },
      { must: "x", named: { a: key } },
      { must: "x", named: { [key]: 10 } }
    ]) {
      assert.notInclude(shown(options), "9f8e7d6c")
    }
    assert.strictEqual(
      given({ must: "x", size: key }),
      "Thing: size must be an integer of at least 1, got a text that is not shown"
    )
  })

  it("never shows the value of a secret, but the allowed values", () => {
    const checks = { must: is.required(is.secret(is.list(is.text, "a list of keys"))) }
    const error = refusal(() => Options.fields("Thing", { must: "hunter2" }, checks))
    assert.strictEqual(error.message, "Thing: must must be a list of keys")
    assert.isUndefined(error.value)
    Options.fields("Thing", { must: ["hunter2"] }, checks)
  })

  it("checks layers, strings, and numbers with an exclusive lower end", () => {
    const checks = { layer: is.layer("A.layer()"), string: is.string, share: is.number({ above: 0, max: 1 }) }
    Options.fields("Thing", { layer: Layer.empty, string: "", share: 1 }, checks)
    const given = (options: object) =>
      // Input from JavaScript.
      refusal(() => Options.fields("Thing", options as { layer?: never }, checks as never)).message
    assert.strictEqual(
      given({ layer: Effect.void }),
      "Thing: layer must be a Layer, for example A.layer(), got an Effect"
    )
    assert.strictEqual(given({ string: 1 }), "Thing: string must be a string, got 1")
    assert.strictEqual(
      given({ share: 0 }),
      "Thing: share must be a finite number above 0 and at most 1, got 0"
    )
    assert.strictEqual(given(Layer.empty), "Thing: options must be an object, got a Layer")
    assert.strictEqual(
      refusal(() => Options.number("Thing", "field", 0, { above: 0 })).allowed,
      "a finite number above 0"
    )
  })

  it("ignores undefined values in a record, and names that Object has", () => {
    Options.fields("Thing", { named: { a: undefined } }, { named: is.record(is.share) })
    assert.strictEqual(
      given({ must: "x", constructor: 1 }).split(".")[0],
      `Thing: "constructor" is not an option`
    )
  })

  it("has the message of the second check", () => {
    const either = { must: is.required(is.either(is.flag, is.duration())) }
    Options.fields("Thing", { must: true }, either)
    Options.fields("Thing", { must: "1 second" }, either)
    assert.strictEqual(
      refusal(() => Options.fields("Thing", { must: "x" }, either)).message,
      `Thing: must must be a finite duration of at least 0, got "x"`
    )
  })
})

it("an InvalidOption is printed in at most eight lines, with the program's frames first", () => {
  const error = refusal(() =>
    Options.fields("RetryBudget", {}, { ratio: Options.is.required(Options.is.share) })
  )
  for (const customInspect of [true, false]) {
    const [message, first, ...rest] = inspect(error, { customInspect }).split("\n")
    assert.strictEqual(message, "InvalidOption: RetryBudget: ratio is missing")
    assert.include(first, "Options.test.ts")
    assert.isAtMost(rest.length, 6)
  }
  assert.include(JSON.stringify(error), `"field":"ratio"`)
})
