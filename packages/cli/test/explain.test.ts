import { Duration } from "effect"
import { assert, describe, it } from "vitest"
import { FailoverReason, ProviderFailure, RecoveryPolicy } from "@outlast/agent"
import { presets } from "#cli/explain/Preset"
import { presetNames } from "#cli/explain/PresetName"
import type { Preset } from "#cli/explain/PresetName"
import * as Rehearsal from "#cli/explain/Rehearsal"
import { outlast } from "./run.ts"

const failure = (reason: FailoverReason.FailoverReason, retryAfter?: Duration.Input) =>
  new ProviderFailure.ProviderFailure({
    reason,
    evidence: { rule: "test", signal: "status", depth: 0 },
    detail: "",
    retryAfter: retryAfter === undefined ? undefined : Duration.fromInputUnsafe(retryAfter)
  })

const rehearse = (
  reason: FailoverReason.FailoverReason,
  shape: Rehearsal.Shape,
  retryAfter?: Duration.Input,
  policy = RecoveryPolicy.interactive
) => Rehearsal.run(policy, failure(reason, retryAfter), "acme", shape)

const one = { keys: 1, models: 1 }
const attempts = (steps: ReadonlyArray<Rehearsal.Step>) =>
  steps.flatMap((step) => (step._tag === "Attempt" ? [`${step.at} ${step.target}`] : []))

describe("a rehearsal", () => {
  it("waits as long as the server requests, with one key", () => {
    const steps = rehearse(new FailoverReason.RateLimit(), one, "20 seconds")
    assert.deepStrictEqual(
      attempts(steps),
      [0, 20_000, 40_000, 60_000, 80_000].map((at) => `${at} acme/model-1#KEY_1`)
    )
    assert.deepInclude(steps.at(-1), { _tag: "GiveUp", at: 80_000, why: "no target is left" })
  })

  it("moves to the other key, then to the other model", () => {
    assert.deepStrictEqual(
      attempts(rehearse(new FailoverReason.Auth({ permanent: false }), { keys: 2, models: 2 })),
      [
        "0 acme/model-1#KEY_1",
        "0 acme/model-1#KEY_2",
        "0 provider-2/model-2#KEY_1",
        "0 provider-2/model-2#KEY_2"
      ]
    )
  })

  it("moves a conversation that is too long only to a larger window", () => {
    const overflow = new FailoverReason.ContextOverflow({})
    const steps = rehearse(overflow, { keys: 2, models: 2 })
    assert.deepStrictEqual(attempts(steps), ["0 acme/model-1#KEY_1", "0 provider-2/model-2#KEY_1"])
    assert.deepInclude(steps.at(-1), { why: "no target has a larger window" })
  })

  it("has a reason for its end, for every reason and policy", () => {
    const stop = rehearse(new FailoverReason.ContentPolicy(), one)
    assert.deepInclude(stop.at(-1), { why: "it would fail everywhere" })
    const used = rehearse(new FailoverReason.RateLimit(), { keys: 3, models: 1 }, "1 second")
    const why = "the 12 attempts of a call are used up (first attempts after a refusal do not count: 2)"
    assert.deepInclude(used.at(-1), { why })
    assert.lengthOf(attempts(used), 14)
    const late = rehearse(new FailoverReason.Overloaded(), { keys: 2, models: 1 })
    assert.deepInclude(late.at(-1), { at: 120_000, why: "the 2m of a call are used up" })
  })

  it("says that no target is left where neither attempts nor time are used up", () => {
    const refused = rehearse(new FailoverReason.Format({ side: "request" }), one)
    assert.deepInclude(refused.at(-1), { at: 0, why: "no target of another wire format is left" })
    const { interactive } = RecoveryPolicy
    const RateLimit = { ...interactive.rows.RateLimit, attempts: 1, to: [] }
    const policy = { ...interactive, rows: { ...interactive.rows, RateLimit } }
    const nowhere = rehearse(new FailoverReason.RateLimit(), one, undefined, policy)
    assert.deepInclude(nowhere.at(-1), { at: 0, why: "no target is left" })
  })
})

describe("a rehearsal of a preset", () => {
  const two = { keys: 1, models: 2 }
  const rateLimit = new FailoverReason.RateLimit()
  const asked = (steps: ReadonlyArray<Rehearsal.Step>) =>
    steps.flatMap((step) => (step._tag === "Attempt" ? [`${step.at} ${step.target.slice(-13, -6)}`] : []))
  const rehearsed = (preset: Preset, reason: FailoverReason.FailoverReason, shape = two) =>
    Rehearsal.run(presets[preset], failure(reason, "20 seconds"), "acme", shape)

  it("switches targets like the preset", () => {
    const last = (preset: Preset) => asked(rehearsed(preset, rateLimit)).find((line) => /model-2/.test(line))
    assert.strictEqual(last("codebuddy"), "4500 model-2")
    assert.strictEqual(last("decision037"), "15000 model-2")
    assert.isUndefined(last("s11"))
    assert.strictEqual(last("nexo"), "80000 model-2")
    assert.strictEqual(last("claw0"), "0 model-2")
  })

  it("counts per target, if the policy does", () => {
    const at = (name: string) => [0, 1_000, 3_000, 7_000, 15_000, 31_000].map((ms) => `${ms} ${name}`)
    const network = new FailoverReason.Network()
    assert.deepStrictEqual(asked(rehearsed("decision037", network, one)), at("model-1"))
  })

  it("is refused by the circuit that its own failures open", () => {
    const steps = rehearsed("decision037", rateLimit, one)
    assert.lengthOf(attempts(steps), 5)
    assert.deepInclude(steps.at(-2), {
      _tag: "Refused",
      at: 15_000,
      circuit: "https://acme.example",
      length: 300_000
    })
    assert.match(steps.map(Rehearsal.lineOf).join("\n"), /circuit https:\/\/acme\.example is open for 5m/)
  })

  it("has a reason for its end when no other target is allowed", () => {
    const end = (preset: Preset) => rehearsed(preset, new FailoverReason.ContextOverflow({})).at(-1)
    assert.deepInclude(end("s11"), { why: "it is not taken to another target" })
    assert.deepInclude(end("claw0"), { why: "no target has a larger window" })
  })
})

describe("outlast explain", { timeout: 60_000 }, () => {
  const parts = ["explain", "--status", "503", "--provider", "openai", "--header", "Retry-After: 20"]

  it("prints the reason, the evidence and the decisions", async () => {
    const run = await outlast(parts)
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.include(run.stdout, "The provider is overloaded (HTTP 503).")
    assert.match(run.stdout, /because {2}rule \S+ decided by the HTTP status of the error itself: "503"/)
    assert.match(run.stdout, /wait {5}20s, says the provider/)
    assert.include(run.stdout, "1 model, 1 key: 5 attempts in 1m 20s")
    assert.include(run.stdout, "1 model, 2 keys:")
    assert.include(run.stdout, "2 models, 1 key each:")
    assert.include(run.stdout, "20.0s  attempt 2 at openai/model-1#KEY_1, after a wait of 20s: fails")
  })

  it("shows the chosen chain under the chosen policy, as JSON", async () => {
    const args = ["--keys", "1", "--models", "2", "--json", "--preset", "background"]
    const found: unknown = JSON.parse((await outlast([...parts, ...args])).stdout)
    assert.deepNestedInclude(found, {
      "verdict.reason": "overloaded",
      "verdict.retryAfterMs": 20_000,
      preset: "background",
      class: "Overloaded",
      "chains[0].keys": 1,
      "chains[0].models": 2,
      "chains[0].steps[1].at": 20_000
    })
    assert.lengthOf(Object(found).chains, 1)
  })

  it("accepts every preset by name", async () => {
    assert.includeMembers([...presetNames], ["codebuddy", "decision037", "s11", "nexo", "claw0"])
    const run = await outlast([...parts, "--preset", "codebuddy"])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.include(run.stdout, "Policy codebuddy, if every attempt fails like this, and at once:")
    assert.include(run.stdout, "class overloaded: up to 3 attempts at one target, then another target")
    assert.match(run.stdout, /cooldown of the endpoint for 2m/)
  })

  it("lists where a preset differs from its document, behind an error or alone", async () => {
    const head = "Differences of codebuddy from the document of its system:"
    const behind = await outlast([...parts, "--preset", "codebuddy"])
    assert.include(behind.stdout, head)
    const alone = await outlast(["explain", "--preset", "codebuddy"], { input: "" })
    assert.strictEqual(alone.exitCode, 0, alone.stderr)
    assert.strictEqual(alone.stdout.split("\n")[0], head)
    assert.include(alone.stdout, "  - Any provider is probed before its cooldown ends")
    const json = await outlast(["explain", "--preset", "claw0", "--json"], { input: "" })
    assert.isAbove(Object(JSON.parse(json.stdout)).deviations.length, 3)
  })

  it.each([
    ["529", "class overloaded: up to 11 attempts at one target, after 3 in a row another model\n"],
    ["429", "class rate_limit: up to 11 attempts at one target, nowhere else\n"]
  ])("says where s11 goes from a %s", async (status, line) => {
    const run = await outlast(["explain", "--status", status, "--preset", "s11"])
    assert.include(run.stdout, line)
  })

  it("reads an error from standard input", async () => {
    const run = await outlast(["explain"], { input: '{"status":401,"message":"no"}\n' })
    assert.include(run.stdout, "reason   auth")
  })

  const misuse: ReadonlyArray<readonly [string, ReadonlyArray<string>, string, RegExp]> = [
    ["an unknown preset", ["--status", "500", "--preset", "acme"], "", /Known presets: interactive, backgro/],
    ["no error", [], "", /No error to explain\. Give it/],
    ["an error that is none", [], "[1]", /The error is a list/],
    ["a file that is not there", ["--error", "/nowhere.json"], "", /nowhere\.json cannot be read/],
    ["a file and parts", ["--error", "x.json", "--status", "500"], "", /not both/],
    ["a header without a name", ["--header", "20"], "", /--header wants NAME: VALUE/],
    ["a status that is none", ["--status", "99"], "", /from 100 to 599/],
    ["a chain without keys", ["--status", "500", "--keys", "0"], "", /--keys must be from 1 to 10/]
  ]
  for (const [what, args, input, says] of misuse) {
    it(`reports ${what}, and exits with 2`, async () => {
      const run = await outlast(["explain", ...args], { input })
      assert.strictEqual(run.exitCode, 2, run.stderr)
      assert.match(run.stderr, says)
      assert.strictEqual(run.stdout, "")
    })
  }

  it("does not repeat a header without a name, which may be a secret", async () => {
    const secret = "hunter2-my-private-credential"
    for (const header of [secret, `:${secret}`, `Bearer ${secret}`]) {
      const run = await outlast(["explain", "--header", "a: b", "--header", header])
      assert.strictEqual(run.exitCode, 2, run.stderr)
      assert.match(run.stderr, /--header wants NAME: VALUE; number 2 of 2/)
      assert.notInclude(run.all, secret)
    }
  })
})
