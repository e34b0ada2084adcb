/** `outlast gateway` as a process, and vendors of Chat Completions behind it. */
import { spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Scope } from "effect"
import { main } from "./process.ts"

export type Answer = (response: ServerResponse, request: IncomingMessage, body: any) => void

/** A vendor of Chat Completions that ends with the scope. */
export const vendor = (answer: Answer): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<{ readonly url: string; readonly close: () => void }>((resume) => {
        const server = createServer(async (request, response) => {
          let text = ""
          for await (const chunk of request) text += String(chunk)
          answer(response, request, JSON.parse(text))
        })
        server.listen(0, "127.0.0.1", () => {
          // A server that listens on a port has an address of this kind.
          const { port } = server.address() as AddressInfo
          const close = () => {
            server.close()
            server.closeAllConnections()
          }
          resume(Effect.succeed({ url: `http://127.0.0.1:${port}/v1`, close }))
        })
      }),
      ({ close }) => Effect.sync(close)
    ),
    ({ url }) => url
  )

export const event = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`

export interface Started {
  readonly child: ChildProcess
  readonly url: string
  /** The status page, without a slash at its end. */
  readonly page: string
  readonly output: () => string
  readonly until: (text: string) => Effect.Effect<void>
  readonly exit: Effect.Effect<number | null>
}

export const started = (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>
): Effect.Effect<Started, never, Scope.Scope> =>
  Effect.gen(function* () {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [main, "gateway", "--port", "0", ...args], {
          env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], ...env }
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)))
    const exited = new Promise<number | null>((resolve) => child.once("close", resolve))
    const until = (text: string) =>
      Effect.repeat(Effect.sleep("20 millis"), {
        until: () => output.includes(text) || child.exitCode !== null
      })
    yield* until("LangChain")
    const url = /^gateway +(\S+)/m.exec(output)?.[1] ?? assert.fail(output)
    const page = /^status page +(\S+)\/$/m.exec(output)?.[1] ?? assert.fail(output)
    return { child, url, page, output: () => output, until, exit: Effect.promise(() => exited) }
  })

export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-gateway-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

export const routes = (name: string, ...urls: ReadonlyArray<string>) =>
  urls
    .map(
      (baseUrl, i) =>
        `[[routes.${name}.targets]]\nprovider = "compatible"\nname = "vendor${i}"\nmodel = "m"\nbaseUrl = "${baseUrl}"\n`
    )
    .join("\n")
