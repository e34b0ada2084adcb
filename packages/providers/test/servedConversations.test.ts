/**
 * A model that has seen the beginning of a conversation sends what a new model sends.
 */
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Message,
  LanguageModelV4Prompt
} from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import { Anthropic, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import { Redacted } from "effect"
import * as fc from "fast-check"
import * as Sweeps from "../../../test/sweeps.ts"

const whole = {
  id: "1",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "Yes." }, finish_reason: "stop" }]
}
const message = {
  id: "1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "Yes." }],
  stop_reason: "end_turn",
  usage: { input_tokens: 1, output_tokens: 1 }
}

/** A model whose requests are recorded. */
const recorded = (kind: "chat" | "messages") => {
  const bodies: Array<string> = []
  const fetch: typeof globalThis.fetch = async (_, init) => {
    bodies.push(String(init?.body))
    return Response.json(kind === "chat" ? whole : message)
  }
  const keys = [KeySource.value("A", Redacted.make("sk-1"))]
  const target =
    kind === "chat"
      ? OpenAiCompatible.model({ name: "a", baseUrl: "http://a.test/v1", model: "m", keys, fetch })
      : Anthropic.model("claude-sonnet-4-5", { baseUrl: "http://a.test/v1", keys, fetch })
  const model = toAiSdk(Failover.layer([target]))
  const ask = async (prompt: LanguageModelV4Prompt): Promise<string | undefined> => {
    const options: LanguageModelV4CallOptions = { prompt }
    await model.doGenerate(options)
    return bodies.at(-1)
  }
  return { ask, dispose: model.dispose }
}

/** A turn with a call of a tool, and one without. */
const turn = (n: number): Array<LanguageModelV4Message> => [
  { role: "user", content: [{ type: "text", text: `Read file ${n}.` }] },
  {
    role: "assistant",
    content: [
      { type: "text", text: `I read ${n}.`, providerOptions: { a: { n } } },
      { type: "tool-call", toolCallId: `call-${n}`, toolName: "read", input: { path: `${n}.txt` } }
    ]
  },
  {
    role: "tool",
    content: [
      {
        type: "tool-result",
        toolCallId: `call-${n}`,
        toolName: "read",
        output: { type: "text", value: `Text ${n}.` }
      }
    ]
  },
  { role: "assistant", content: [{ type: "text", text: `File ${n} is short.` }] }
]

const conversation = (turns: number): LanguageModelV4Prompt => [
  { role: "system", content: "Be brief." },
  ...Array.from({ length: turns }, (_, n) => turn(n)).flat(),
  { role: "user", content: [{ type: "text", text: "And now?" }] }
]

type Edit = (prompt: LanguageModelV4Prompt, at: number, n: number) => LanguageModelV4Prompt

/** What a program may do with its conversation between two calls. */
const edits: Readonly<Record<string, Edit>> = {
  nothing: (prompt) => prompt,
  "new objects": (prompt) => structuredClone(prompt),
  "one turn more": (prompt, _, n) => [...prompt.slice(0, -1), ...turn(100 + n), ...prompt.slice(-1)],
  "one turn less": (prompt) => (prompt.length > 24 ? [...prompt.slice(0, -5), ...prompt.slice(-1)] : prompt),
  "a text in place": (prompt, at, n) => {
    const message = prompt[at % prompt.length]
    const part = message?.role === "user" ? message.content[0] : undefined
    if (part?.type === "text") part.text = `Changed ${n}.`
    return prompt
  },
  "a new part in place": (prompt, at, n) => {
    const message = prompt[at % prompt.length]
    if (message?.role === "user") message.content.push({ type: "text", text: `Added ${n}.` })
    return prompt
  },
  "an argument in place": (prompt, at, n) => {
    const message = prompt[at % prompt.length]
    const part = message?.role === "assistant" ? message.content[1] : undefined
    if (part?.type === "tool-call") part.input = { path: `changed-${n}.txt` }
    return prompt
  },
  "a result as a copy": (prompt, at, n) =>
    prompt.map((message, i) =>
      i === at % prompt.length && message.role === "tool"
        ? {
            ...message,
            content: message.content.map((part) =>
              part.type === "tool-result" ? { ...part, output: { type: "text", value: `Other ${n}.` } } : part
            )
          }
        : message
    ),
  "options of a message": (prompt, at, n) =>
    prompt.map((message, i) =>
      i === at % prompt.length
        ? {
            ...message,
            providerOptions: { anthropic: { cacheControl: { type: "ephemeral", ttl: n % 2 ? "1h" : "5m" } } }
          }
        : message
    ),
  "options in place": (prompt, at, n) => {
    const ttl = n % 2 ? "1h" : "5m"
    for (const message of prompt) {
      const cacheControl = message.providerOptions?.["anthropic"]?.["cacheControl"]
      if (typeof cacheControl === "object") Object.assign(cacheControl ?? {}, { ttl })
    }
    const message = prompt[at % prompt.length]
    if (message !== undefined)
      message.providerOptions = { anthropic: { cacheControl: { type: "ephemeral", ttl } } }
    return prompt
  },
  "inside of an ill-formed argument": (prompt, at, n) => {
    const message = prompt[at % prompt.length]
    const part = message?.role === "assistant" ? message.content[1] : undefined
    if (part?.type !== "tool-call") return prompt
    const input: { path?: string; half?: string } = part.input ?? {}
    if (input.half === undefined) part.input = { path: `${n}.txt`, half: "half \ud83d" }
    else input.path = `changed-${n}.txt`
    return prompt
  },
  "an ill-formed text": (prompt, at) => {
    const message = prompt[at % prompt.length]
    const part = message?.role === "user" ? message.content[0] : undefined
    if (part?.type === "text") part.text = "half \ud83d"
    return prompt
  }
}

const steps = fc.array(fc.tuple(fc.constantFrom(...Object.keys(edits)), fc.nat(60)), {
  minLength: 1,
  maxLength: 8
})

describe("a model that has seen the beginning of a conversation", () => {
  for (const kind of ["chat", "messages"] as const) {
    it(`sends what a new model sends, whatever the program has changed (${kind})`, async () => {
      const check = fc.asyncProperty(steps, async (steps) => {
        const known = recorded(kind)
        let prompt = conversation(6)
        await known.ask(prompt)
        for (const [n, [edit, at]] of steps.entries()) {
          prompt = edits[edit]?.(prompt, at, n) ?? prompt
          const fresh = recorded(kind)
          assert.strictEqual(await known.ask(prompt), await fresh.ask(prompt), edit)
          await fresh.dispose()
        }
        await known.dispose()
      })
      await fc.assert(check, { numRuns: Sweeps.runs(40), seed: 7 })
    })
  }

  it("sends options and ill-formed arguments that the program has changed in place", async () => {
    const known = recorded("messages")
    const prompt = conversation(6)
    const cacheControl = { type: "ephemeral", ttl: "5m" }
    const input = { path: "0.txt", half: "half \ud83d" }
    const [, user, answer] = prompt
    if (user?.role === "user") user.providerOptions = { anthropic: { cacheControl } }
    const call = answer?.role === "assistant" ? answer.content[1] : undefined
    if (call?.type === "tool-call") call.input = input
    assert.include(await known.ask(prompt), `"ttl":"5m"`)
    cacheControl.ttl = "1h"
    input.path = "changed.txt"
    const sent = await known.ask(prompt)
    assert.include(sent, `"ttl":"1h"`)
    assert.include(sent, `"path":"changed.txt"`)
    await known.dispose()
  })

  it("takes arguments that refer to themselves", async () => {
    const input: Record<string, unknown> = { path: "0.txt" }
    input["self"] = input
    const prompt = conversation(6)
    const answer = prompt[2]
    const call = answer?.role === "assistant" ? answer.content[1] : undefined
    if (call?.type === "tool-call") call.input = input
    const known = recorded("chat")
    assert.strictEqual(await known.ask(prompt), await known.ask(prompt))
    await known.dispose()
  })

  it("keeps two conversations apart that begin with the same text", async () => {
    const known = recorded("chat")
    const [a, b] = [conversation(6), conversation(6)]
    const first = a[2]
    if (first?.role === "assistant") first.content = [{ type: "text", text: "Another answer." }]
    for (const prompt of [a, b, a, [...b, ...turn(7)], [...a, ...turn(8)]]) {
      const fresh = recorded("chat")
      assert.strictEqual(await known.ask(prompt), await fresh.ask(prompt))
      await fresh.dispose()
    }
    await known.dispose()
  })
})
