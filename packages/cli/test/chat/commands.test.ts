import { assert, describe, it } from "vitest"
import { complete, definitions, parse } from "#cli/chat/Command"
import { Options } from "@outlast/resilience"
import { nearest, unknown } from "#cli/chat/Nearest"

describe("the reading of a line", () => {
  const cases: ReadonlyArray<readonly [line: string, command: ReturnType<typeof parse>]> = [
    ["", { _tag: "Nothing" }],
    ["  \t", { _tag: "Nothing" }],
    [" Hello! ", { _tag: "Message", text: "Hello!" }],
    ["//etc is a folder", { _tag: "Message", text: "/etc is a folder" }],
    ["/profiles", { _tag: "Show", view: "profiles" }],
    ["/STATS ", { _tag: "Show", view: "stats" }],
    ["/why", { _tag: "Show", view: "why" }],
    ["/simulate-failure rate_limit", { _tag: "Simulate", reason: "rate_limit", times: 1 }],
    ["/simulate-failure  Overloaded  3", { _tag: "Simulate", reason: "overloaded", times: 3 }],
    ["/simulate-failure overflow", { _tag: "Simulate", reason: "context_overflow", times: 1 }],
    ["/trip anthropic/claude", { _tag: "Trip", name: "anthropic/claude" }],
    ["/reset all", { _tag: "Reset", name: "all" }],
    ["/compact", { _tag: "Compact" }],
    ["/preset", { _tag: "Show", view: "presets" }],
    ["/preset s11", { _tag: "UsePreset", preset: "s11" }],
    ["/quit", { _tag: "Quit" }]
  ]
  for (const [line, command] of cases) {
    it(`reads ${JSON.stringify(line)}`, () => assert.deepStrictEqual(parse(line), command))
  }

  const mistakes: ReadonlyArray<readonly [line: string, says: RegExp]> = [
    ["/", /Commands: \/profiles, /],
    ["/cooldown", /Did you mean \/cooldowns\? Commands: /],
    ["/simulate-failure", /needs a reason\. Reasons: auth, billing/],
    ["/simulate-failure ratelimit", /Did you mean rate_limit\? Reasons: /],
    ["/simulate-failure auth 0", /from 1 to 100/],
    ["/simulate-failure auth 101", /from 1 to 100/],
    ["/simulate-failure auth 1.5", /from 1 to 100/],
    ["/simulate-failure auth 2 3", /from 1 to 100/],
    ["/trip", /\/circuits lists them/],
    ["/reset", /\/reset all/],
    ["/preset claw", /Did you mean claw0\? Presets: interactive/],
    ["/stats now", /\/stats takes no argument/]
  ]
  for (const [line, says] of mistakes) {
    it(`explains ${JSON.stringify(line)}`, () => {
      const command = parse(line)
      assert(command._tag === "Mistake")
      assert.match(command.message, says)
    })
  }

  it("knows every command of its list", () => {
    for (const { name, argument } of definitions) {
      const { _tag } = parse(argument === "" ? name : `${name} nothing`)
      assert.notInclude(["Message", "Nothing"], _tag, name)
    }
  })
})

describe("the completion of a line", () => {
  const names = { circuits: ["anthropic", "openai"], names: ["all", "anthropic", "MAIN_KEY"] }
  const completions: ReadonlyArray<readonly [line: string, words: ReadonlyArray<string>]> = [
    ["/tr", ["/trip "]],
    ["/c", ["/cooldowns", "/circuits", "/compact"]],
    [" /WHY", ["/why"]],
    ["/trip ", ["anthropic", "openai"]],
    ["/trip an", ["anthropic"]],
    ["/reset main", ["MAIN_KEY"]],
    ["/simulate-failure rate", ["rate_limit"]],
    ["/preset s", ["s11"]],
    ["/stats a", []],
    ["/simulate-failure auth 1", []],
    ["//e", []],
    ["Hello", []],
    ["", []]
  ]
  for (const [line, words] of completions) {
    it(`of ${JSON.stringify(line)} is ${JSON.stringify(words)}`, () =>
      assert.deepStrictEqual(complete(line, names)[0], words))
  }
})

describe("the nearest name", () => {
  it("counts insertions, deletions, replacements and swaps", () => {
    const pairs = [
      ["", "abc", 3],
      ["auth", "auth", 0],
      ["auht", "auth", 1],
      ["aut", "auth", 1],
      ["authh", "auth", 1],
      ["axth", "auth", 1],
      ["stats", "trip", 4]
    ] as const
    for (const [from, to, away] of pairs) {
      assert.strictEqual(Options.typingErrors(from, to), away, `${from} ${to}`)
      assert.strictEqual(Options.typingErrors(to, from), away, `${to} ${from}`)
    }
  })

  it("prefers the smallest difference, and names nothing that is far", () => {
    assert.strictEqual(nearest("netwrok", ["timeout", "permanent_network", "network"]), "network")
    assert.strictEqual(nearest("limit", ["auth", "rate_limit"]), "rate_limit")
    assert.isUndefined(nearest("banana", ["auth", "billing"]))
    assert.isUndefined(nearest("", ["auth"]))
    assert.isUndefined(nearest("a".repeat(10_000), ["auth"]))
  })

  it("cuts a very long name in its message", () => {
    assert.isAtMost(unknown("a reason", "x".repeat(10_000), ["auth"], "Reasons").length, 120)
  })
})
