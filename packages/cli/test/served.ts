/** `outlast serve` as a process, for tests that ask it over HTTP. */
import { spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Scope } from "effect"
import { main } from "./process.ts"

export const token = "operator-token-0123456789"
export const anyPort = ["--port", "0", "--probes-port", "0", "--metrics-port", "0"]

export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-serve-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true, maxRetries: 3 }))
)

export interface Served {
  readonly child: ChildProcess
  readonly page: string
  readonly probes: string
  readonly metrics: string
  readonly output: () => string
  readonly exit: Effect.Effect<number | null>
}

/** Starts the service, and ends it with the scope. */
export const serve = (
  data: string,
  args: ReadonlyArray<string> = [],
  env: Readonly<Record<string, string>> = {}
): Effect.Effect<Served, never, Scope.Scope> =>
  Effect.gen(function* () {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [main, "serve", "--data", data, ...anyPort, ...args], {
          env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], ...env }
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)))
    const exited = new Promise<number | null>((resolve) => child.once("close", resolve))
    yield* Effect.repeat(Effect.sleep("20 millis"), {
      until: () => output.includes("actions ") || child.exitCode !== null
    })
    const url = (name: string) =>
      new RegExp(`^${name} .*?(http://[^/]+)`, "m").exec(output)?.[1] ?? assert.fail(output)
    return {
      child,
      page: url("status page"),
      probes: url("probes"),
      metrics: url("metrics"),
      output: () => output,
      exit: Effect.promise(() => exited)
    }
  })

export const ask = (url: string, init: RequestInit = {}) =>
  Effect.promise(async () => {
    const response = await fetch(url, init)
    return { status: response.status, text: await response.text() }
  })

export const json = { "content-type": "application/json" }
export const run = (page: string, body: unknown) =>
  ask(`${page}/api/runs`, { method: "POST", headers: json, body: JSON.stringify(body) })

export const service = (name: string, test: Effect.Effect<void, never, Scope.Scope>) =>
  it.live(name, () => Effect.scoped(test), 180_000)
