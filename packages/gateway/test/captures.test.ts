/**
 * Recorded answers of vendors pass unchanged through a route with one target. The recordings are not part of the
 * repository: without them, only that they are absent is said.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Gateway } from "@outlast/gateway"
import type { WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const folder = join(import.meta.dirname, "../../../../shared/captures/answers")
const files = existsSync(folder) ? readdirSync(folder) : []

const parse = (text: string): any => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const wireOf = (value: any): WireName | undefined => {
  if (value?.choices !== undefined) return "chat"
  if (value?.object === "response" || /^response\./.test(value?.type)) return "responses"
  if (value?.type === "message" || value?.type === "message_start") return "messages"
  return undefined
}

/** A capture that is an error, several turns, or of another API. */
const isError = (value: any): boolean => value?.error != null || value?.status === "failed"

const leftOut: ReadonlySet<string> = new Set([
  // Its lines are not JSON.
  "openai-responses--parallel-tool-call-wrapper.1.chunks.txt",
  // Two answers in one stream.
  "anthropic--spliced-message-start.chunks.txt",
  // An error.
  "openai-responses--openai-error.1.chunks.txt"
])

/** Some captures hold the answers of several turns. */
const turnsOf = (wire: WireName, lines: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> => {
  if (wire === "chat") return [lines.at(-1) === "[DONE]" ? lines : [...lines, "[DONE]"]]
  const turns: Array<Array<string>> = []
  const last = /"type":\s*"(?:message_stop|response\.(?:completed|incomplete))"/
  let isOver = true
  for (const line of lines) {
    if (isOver) turns.push([])
    turns.at(-1)?.push(line)
    isOver = last.test(line.slice(0, 60))
  }
  return turns
}

/** A ping may come before the end of a block that is held. */
const withoutPings = (text: string): string => text.replaceAll(/event: ping\ndata: [^\n]*\n\n/g, "")

describe.skipIf(files.length === 0)("recorded answers", () => {
  for (const file of files) {
    const text = readFileSync(join(folder, file), "utf8")
    if (file.endsWith(".json")) {
      const value = parse(text)
      const wire = wireOf(value)
      if (wire === undefined || isError(value)) continue
      it.effect(`${file} comes back as it is`, () =>
        Effect.gen(function* () {
          const vendor = yield* Vendor.start((response) => Vendor.json(response, 200, text))
          const gateway = yield* Gateway.make({ routes: { route: { chain: [Vendor.target(wire, vendor)] } } })
          const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, Vendor.request(wire)))
          const body = yield* Effect.promise(() => answer.text())
          assert.strictEqual(body, text)
          assert.strictEqual(answer.status, 200)
        })
      )
    } else {
      const lines = text.split("\n").filter((line) => line.trim() !== "")
      const values = lines.map(parse)
      const wire = values.map(wireOf).find((wire) => wire !== undefined)
      if (wire === undefined || leftOut.has(file)) continue
      turnsOf(wire, lines).forEach((turn, i) => {
        it.effect(`${file}, answer ${i + 1}, comes back event by event`, () =>
          Effect.gen(function* () {
            const sent = Vendor.events(wire, turn)
            const vendor = yield* Vendor.start((response) => Vendor.stream(response, sent))
            const gateway = yield* Gateway.make({
              routes: { route: { chain: [Vendor.target(wire, vendor)] } }
            })
            const asked = Vendor.request(wire, { stream: true })
            const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, asked))
            const body = yield* Effect.promise(() => answer.text())
            assert.strictEqual(withoutPings(body), withoutPings(sent))
          })
        )
      })
    }
  }
})
