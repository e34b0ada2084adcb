/**
 * A model that has seen the beginning of a conversation sends what a new model sends.
 */
import { APICallError } from "@ai-sdk/provider"
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
import * as Client from "./client.ts"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
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
const recorded = (kind: "chat" | "messages" | "version 3") => {
  const bodies: Array<string> = []
  const fetch: typeof globalThis.fetch = async (_, init) => {
    bodies.push(String(init?.body))
    return Response.json(kind === "chat" ? whole : message)
  }
  const client = Client.setup({ version: "v3", content: [{ type: "text", text: "Yes." }] })
  const keys = [KeySource.value("A", Redacted.make("sk-1"))]
  const targets = {
    chat: OpenAiCompatible.model({ name: "a", baseUrl: "http://a.test/v1", model: "m", keys, fetch }),
    messages: Anthropic.model("claude-sonnet-4-5", { baseUrl: "http://a.test/v1", keys, fetch }),
    "version 3": client.spec
  }
  const model = toAiSdk(Failover.layer([targets[kind]]))
  const ask = async (prompt: LanguageModelV4Prompt): Promise<string | undefined> => {
    const options: LanguageModelV4CallOptions = { prompt }
    await model.doGenerate(options)
    return kind === "version 3" ? JSON.stringify(client.calls.pop()?.prompt) : bodies.at(-1)
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
      { type: "tool-call", toolCallId: `call-${n}`, toolName: "read", input: { path: `${n}.txt` } },
      { type: "tool-call", toolCallId: `stat-${n}`, toolName: "stat", input: {} }
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
      },
      {
        type: "tool-result",
        toolCallId: `stat-${n}`,
        toolName: "stat",
        output: { type: "json", value: { n } }
      }
    ]
  },
  { role: "assistant", content: [{ type: "text", text: `File ${n} is short.` }] }
]

const conversation = (turns: number): LanguageModelV4Prompt => [
  {
    role: "system",
    content: "Be brief.",
    providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } }
  },
  ...Array.from({ length: turns }, (_, n) => turn(n)).flat(),
  { role: "user", content: [{ type: "text", text: "And now?" }] }
]

type Edit = (prompt: LanguageModelV4Prompt, at: number, n: number) => LanguageModelV4Prompt

/** Changes that a program may make to its conversation between two calls. */
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
  "an argument inside of the arguments": (prompt, at, n) => {
    const message = prompt[at % prompt.length]
    const part = message?.role === "assistant" ? message.content[1] : undefined
    if (part?.type === "tool-call") Object.assign(part.input as object, { path: `half \ud83d ${n}` })
    return prompt
  },
  "the value of a result": (prompt, at, n) => {
    const message = prompt[at % prompt.length]
    const part = message?.role === "tool" ? message.content[0] : undefined
    if (part?.type === "tool-result" && part.output.type === "text") part.output.value = `Cut ${n}.`
    return prompt
  },
  "an option inside of the options": ([system, ...rest], _, n) => {
    const { anthropic } = system?.providerOptions ?? {}
    if (anthropic !== undefined) anthropic["cacheControl"] = n % 2 ? { type: "ephemeral" } : undefined
    return system === undefined ? rest : [system, ...rest]
  },
  "results in two messages": (prompt, at) =>
    prompt.flatMap((message, i) =>
      i === at % prompt.length && message.role === "tool" && message.content.length > 1
        ? message.content.map((part) => ({ ...message, content: [part] }))
        : [message]
    ),
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
  for (const kind of ["chat", "messages", "version 3"] as const) {
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

  it("leaves arguments that contain themselves to the client", async () => {
    const { ask, dispose } = recorded("messages")
    const prompt = conversation(6)
    const input: Record<string, unknown> = {}
    input["input"] = input
    prompt.splice(-1, 0, {
      role: "assistant",
      content: [{ type: "tool-call", toolCallId: "call", toolName: "read", input }]
    })
    const failure = await ask(prompt).then(undefined, (error: unknown) => error)
    assert.isTrue(APICallError.isInstance(failure))
    await dispose()
  })

  it("does not hold the files of a conversation that has ended", async () => {
    setFlagsFromString("--expose-gc")
    const collect: unknown = runInNewContext("gc")
    const { ask, dispose } = recorded("version 3")
    const asked = async () => {
      const data = new Uint8Array(1_000)
      const content = [
        { type: "file" as const, mediaType: "image/png", data: { type: "data" as const, data } }
      ]
      await ask([...conversation(6), { role: "user", content }])
      return new WeakRef(data)
    }
    const files = await asked()
    // The last call may still be referred to by what it ran in.
    for (let i = 0; i < 3; i++) await ask(conversation(1))
    await new Promise((resolve) => setImmediate(resolve))
    if (typeof collect === "function") collect()
    assert.isUndefined(files.deref())
    await dispose()
  })
})
