/** `outlast doctor` on a file with routes of a gateway. */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Report } from "#cli/doctor/Report"
import { outlast } from "./run.ts"

const secret = "planted-Zx9Qw8Er7Ty6Ui5Op4"

const file = `
[routes.smart]
aliases = ["gpt-4o"]

[[routes.smart.targets]]
provider = "openai"
model = "gpt-5.1"
keys = ["OPENAI_API_KEY", "OPENAI_API_KEY_2"]

[[routes.smart.targets]]
provider = "compatible"
name = "openrouter"
model = "m"
baseUrl = "https://openrouter.ai/api/v1"
keys = ["OPENROUTER_API_KEY"]

[[routes.local.targets]]
provider = "compatible"
name = "local"
model = "m"
baseUrl = "http://127.0.0.1:11434/v1"
`

/** The checks of this area, with these variables. */
const doctor = (env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "outlast-doctor-"))),
      (path) => Effect.promise(() => rm(path, { recursive: true }))
    )
    const path = join(folder, "routes.toml")
    yield* Effect.promise(() => writeFile(path, file))
    const run = yield* Effect.promise(() => outlast(["doctor", "--json", "--config", path, ...args], { env }))
    assert.notInclude(run.all, secret)
    const { checks }: Report = JSON.parse(run.stdout)
    const of = (area: string) =>
      checks.filter((check) => check.area === area).map(({ level, message }) => `${level}: ${message}`)
    return { exitCode: run.exitCode, of }
  })

const all = {
  OPENAI_API_KEY: `sk-${secret}-1`,
  OPENAI_API_KEY_2: `sk-${secret}-2`,
  OPENROUTER_API_KEY: `sk-or-${secret}`
}

describe("outlast doctor --config with routes", { timeout: 60_000 }, () => {
  it.live("says that all routes can be served", () =>
    Effect.gen(function* () {
      const run = yield* doctor(all)
      assert.match(run.of("configuration").join(), /^ok: TOML, \d+ settings, all of them valid\.$/)
      assert.deepStrictEqual(run.of("routes"), [
        "ok: All 2 routes have targets that can be built, with their keys."
      ])
      assert.deepStrictEqual(run.of("callers"), [
        "ok: Callers on this machine need no key. A --host beyond loopback needs OUTLAST_GATEWAY_KEY."
      ])
      assert.strictEqual(run.exitCode, 0)
    })
  )

  it.live("names targets without a key, keys that look wrong, and routes that answer no call", () =>
    Effect.gen(function* () {
      const some = yield* doctor({ OPENAI_API_KEY: all.OPENAI_API_KEY, OPENROUTER_API_KEY: `"${secret}"` })
      assert.deepStrictEqual(some.of("routes"), [
        "warning: routes.smart: openai/gpt-5.1 goes without OPENAI_API_KEY_2: not set.",
        "warning: OPENROUTER_API_KEY begins or ends with a quote. Set it without quotes."
      ])
      assert.strictEqual(some.exitCode, 0)
      const none = yield* doctor({})
      assert.deepStrictEqual(none.of("routes"), [
        "warning: routes.smart: openai/gpt-5.1 has no key. Set OPENAI_API_KEY or OPENAI_API_KEY_2.",
        "warning: routes.smart: openrouter/m has no key. Set OPENROUTER_API_KEY.",
        "error: routes.smart: no target can be used, so it answers no call."
      ])
      assert.strictEqual(none.exitCode, 1)
    })
  )

  it.live("examines the keys of callers as the gateway does", () =>
    Effect.gen(function* () {
      const open = yield* doctor(all, "--port", "0.0.0.0:64190")
      assert.deepStrictEqual(open.of("callers"), [
        "error: The address 0.0.0.0 can be reached from other machines: set OUTLAST_GATEWAY_KEY."
      ])
      assert.strictEqual(open.exitCode, 1)
      const short = yield* doctor({ ...all, OUTLAST_GATEWAY_KEY: `${secret},short` })
      assert.match(
        short.of("callers").join(),
        /^error: A key in OUTLAST_GATEWAY_KEY has fewer than 16 characters/
      )
      const good = yield* doctor({ ...all, OUTLAST_GATEWAY_KEY: secret }, "--port", "0.0.0.0:64190")
      assert.deepStrictEqual(good.of("callers"), ["ok: Callers need a key of OUTLAST_GATEWAY_KEY."])
    })
  )
})
