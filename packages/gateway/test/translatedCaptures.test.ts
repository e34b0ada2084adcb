/**
 * Recorded answers of vendors behind a caller of another wire format: text, calls, arguments, end and usage are the same.
 * The recordings are not part of the repository: without them, only that they are absent is said.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Gateway } from "@outlast/gateway"
import * as Answers from "./Answers.ts"
import { files, isError, leftOut, linesOf, parse, requests, textOf, turnsOf, wireOf } from "./Captures.ts"
import type { Said } from "./Said.ts"
import { streamed, whole } from "./Said.ts"
import type { Format, WireName } from "./Vendor.ts"
import * as Vendor from "./Vendor.ts"

const wires = ["chat", "messages", "responses"] as const

/** Answers with tools that the vendor runs: no request of another format can ask for them. */
const ofVendorTools =
  /advisor|code-execution|code-interpreter|compaction|fallback|mcp|memory|programmatic|tool-search|web-(?:fetch|search)|file-search|image-generation|shell|apply-patch|local-|computer|skill|custom-tool|grammar/

/** Arguments in pieces, which only the enterprise platform has. */
const isPartial = /stream-tool-call-arguments|no-args|array-arguments/

const usable = files.filter((file) => !leftOut.has(file) && !ofVendorTools.test(file))

const asked = (wire: WireName, streams: boolean) =>
  Vendor.request(wire, {
    stream: streams,
    ...(wire === "chat" && streams ? { stream_options: { include_usage: true } } : {})
  })

/** The answer of a vendor that speaks `out` to a caller that speaks `wire`. */
const through = (wire: WireName, out: Format, streams: boolean, answer: Vendor.Answer) =>
  Effect.gen(function* () {
    const vendor = yield* Vendor.start(answer)
    const chain = [Vendor.target(out, vendor)] as const
    const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
    const response = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, asked(wire, streams)))
    const body = yield* Effect.promise(() => response.text())
    assert.strictEqual(response.status, 200, body)
    return streams ? streamed(wire, body) : whole(wire, parse(body))
  })

/** Arguments stay as the model wrote them, except where the wire has an object in place of the text. */
const comparable = ({ calls, ...said }: Said, hasText: boolean) => ({
  ...said,
  text: said.text.trim(),
  calls: calls.map(([name, given]) => [name, hasText ? given || "{}" : parse(given)])
})

/** What Gemini says, read without a client. */
const ofGemini = (values: ReadonlyArray<any>): Said => {
  const parts = values.flatMap((value) => value.candidates?.[0]?.content?.parts ?? [])
  const calls = parts
    .filter((part: any) => part.functionCall !== undefined)
    .map((part: any) => [part.functionCall.name, JSON.stringify(part.functionCall.args ?? {})] as const)
  const usage = values.findLast((value) => value.usageMetadata !== undefined)?.usageMetadata
  return {
    text: parts.map((part: any) => (part.thought === true ? "" : (part.text ?? ""))).join(""),
    calls,
    end: calls.length > 0 ? "calls" : "stop",
    input: usage?.promptTokenCount,
    cached: usage?.cachedContentTokenCount ?? 0,
    output: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0)
  }
}

describe.skipIf(files.length === 0)("recorded answers of Gemini", () => {
  for (const file of files.filter((file) => file.startsWith("google--") && !isPartial.test(file))) {
    const isStream = file.endsWith(".chunks.txt")
    const lines = isStream ? linesOf(file) : [textOf(file)]
    const values = lines.map(parse)
    if (values.some(isError) || values[0]?.candidates === undefined) continue
    for (const wire of wires) {
      it.effect(`${file} is the same for ${wire}`, () =>
        Effect.gen(function* () {
          const said = yield* through(wire, "gemini", isStream, (response) =>
            isStream
              ? Vendor.stream(response, lines.map((line) => `data: ${line}\n\n`).join(""))
              : Vendor.json(response, 200, lines[0])
          )
          assert.deepStrictEqual(comparable(said, false), comparable(ofGemini(values), false))
        })
      )
    }
  }
})

describe.skipIf(files.length === 0)("recorded answers behind another format", () => {
  for (const file of usable) {
    const isStream = file.endsWith(".chunks.txt")
    const turn = isStream ? undefined : textOf(file)
    const lines = isStream ? linesOf(file) : []
    const values = isStream ? lines.map(parse) : [parse(turn ?? "")]
    const out = values.map(wireOf).find((wire) => wire !== undefined)
    if (out === undefined || values.some(isError)) continue
    const [first = []] = isStream ? turnsOf(out, lines) : []
    const sent = Vendor.events(out, first)
    const answer: Vendor.Answer = (response) =>
      isStream ? Vendor.stream(response, sent) : Vendor.json(response, 200, turn)
    for (const wire of wires.filter((wire) => wire !== out)) {
      it.effect(`${file} is the same for ${wire}`, () =>
        Effect.gen(function* () {
          const own = yield* through(out, out, isStream, answer)
          const translated = yield* through(wire, out, isStream, answer)
          const hasText = isStream || (out !== "messages" && wire !== "messages")
          assert.deepStrictEqual(comparable(translated, hasText), comparable(own, hasText))
        })
      )
    }
  }
})

describe.skipIf(requests.length === 0)("recorded requests", () => {
  for (const { body, file, wire } of requests) {
    it.effect(`${file} is answered, or refused by the name of a field`, () =>
      Effect.gen(function* () {
        for (const out of (["chat", "messages", "responses", "gemini"] as const).filter(
          (out) => out !== wire
        )) {
          const vendor = yield* Vendor.start((response) =>
            Vendor.stream(response, Answers.stream(out, { id: "one", text: ["Hello."] }).join(""))
          )
          const chain = [Vendor.target(out, vendor)] as const
          const gateway = yield* Gateway.make({ routes: { route: { chain, policy: Vendor.impatient } } })
          const request = { ...body, model: "route", stream: true }
          const answer = yield* Effect.promise(() => Vendor.ask(gateway.fetch, wire, request))
          const text = yield* Effect.promise(() => answer.text())
          if (answer.status === 200) assert.strictEqual(streamed(wire, text).text, "Hello.")
          else assert.match(parse(text).error.message, /^The field \S+ (?:has|is|names) /)
          assert.strictEqual(vendor.hits.length, answer.status === 200 ? 1 : 0)
        }
      })
    )
  }
})
