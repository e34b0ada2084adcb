/**
 * Compaction of runs in the AI SDK's own loop, against servers that refuse what exceeds their window.
 */
import type { OutlastEvent } from "@outlast/ai-sdk"
import { CannotFit, outlast } from "@outlast/ai-sdk"
import { assert, describe, it } from "@effect/vitest"
import type { ModelMessage } from "ai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { generateText, jsonSchema, streamText, tool } from "ai"
import { rawServer } from "./rawServer.ts"
import { caught, played, search, wires } from "./support.ts"

const words = "The quick brown fox jumps over the lazy dog. "

/** A text of about `kilobytes`, different in each call. */
const page = (query: string, kilobytes: number): string =>
  Array.from({ length: kilobytes * 22 }, (_, i) => `${query} ${i}: ${words}`).join("\n")

describe("a hundred turns over a window of 32,000 tokens", () => {
  for (const wire of wires) {
    for (const streams of [false, true]) {
      it(`end well with parallel tools, by ${wire}${streams ? ", streamed" : ""}`, async () => {
        const turns = 100
        await using provider = await rawServer(wire, {
          window: 32_000,
          answer: (turn) =>
            turn === turns
              ? "Done."
              : [0, 1, 2].map((n) => ({ name: "search", input: { query: `part ${turn}.${n}` } }))
        })
        const heard: Array<OutlastEvent> = []
        await using agent = outlast({
          models: [provider.model],
          guard: { toolCalls: 1_000 },
          compaction: { window: 32_000 },
          onEvent: (event) => void heard.push(event),
          log: false
        })
        const ran: Array<string> = []
        // The three results of every tenth step exceed the window together.
        const tools = { search: search(ran, (query) => page(query, /^part \d*5\./.test(query) ? 60 : 4)) }
        const settings = {
          ...agent.with({ tools }),
          instructions: "You are careful.",
          prompt: "Read all of the parts."
        }
        const { text, steps } = await (streams ? whole(streamText(settings)) : generateText(settings))
        assert.strictEqual(text, "Done.")
        assert.lengthOf(steps, turns + 1)
        assert.lengthOf(ran, 3 * turns)
        const { accepted, bodies } = provider.seen
        assert.lengthOf(accepted, turns + 1)
        assert.isTrue(bodies.every((body) => body.includes("You are careful.")))
        assert.isTrue(bodies.every((body) => body.includes("Read all of the parts.")))
        assert.isAbove(heard.filter(({ _tag }) => _tag === "ContextCompacted").length, 3)
      })
    }
  }
})

const whole = async <A, B>(result: { readonly text: PromiseLike<A>; readonly steps: PromiseLike<B> }) => ({
  text: await result.text,
  steps: await result.steps
})

describe("a conversation that cannot be cut enough", () => {
  it("throws CannotFit, which names its largest part", async () => {
    await using provider = await rawServer("anthropic", { answer: () => "Done." })
    await using agent = outlast({ models: [provider.model], compaction: { window: 8_000 }, log: false })
    const prompt = words.repeat(2_000)
    const error = await caught(generateText({ ...agent.with(), instructions: prompt, prompt: "Read it." }))
    assert.instanceOf(error, CannotFit)
    assert.match(String(error), /must not have more than .*What cannot be cut: /s)
    assert.lengthOf(provider.seen.bodies, 0)
  })
})

describe("compacted messages", () => {
  it("keep pinned ones, images, signatures and approvals as the same objects", async () => {
    await using provider = await rawServer("anthropic", { answer: () => "Done." })
    await using agent = outlast({ models: [provider.model], compaction: { window: 8_000 }, log: false })
    const pinned: ModelMessage = {
      role: "user",
      content: "The house is blue.",
      providerOptions: { outlast: { pinned: true } }
    }
    const image: ModelMessage = {
      role: "user",
      content: [
        { type: "text", text: "A picture." },
        { type: "file", data: new Uint8Array([137, 80, 78, 71]), mediaType: "image/png" }
      ]
    }
    const thought: ModelMessage = {
      role: "assistant",
      content: [
        { type: "reasoning", text: "Hm.", providerOptions: { anthropic: { signature: "c2lnbmVk" } } },
        { type: "tool-call", toolCallId: "c1", toolName: "search", input: { query: "x" } }
      ]
    }
    const found: ModelMessage = {
      role: "tool",
      content: [
        {
          type: "tool-result",
          toolCallId: "c1",
          toolName: "search",
          output: { type: "text", value: page("x", 40) }
        }
      ]
    }
    const messages: Array<ModelMessage> = [
      { role: "user", content: "Begin." },
      pinned,
      ...Array.from({ length: 8 }, (_, i): Array<ModelMessage> => [
        { role: "assistant", content: page(`old ${i}`, 2) },
        { role: "user", content: "Go on." }
      ]).flat(),
      image,
      thought,
      found
    ]
    let sent: ReadonlyArray<ModelMessage> = []
    const result = streamText({
      ...agent.with({ tools: { search: search() } }),
      messages,
      onStepStart: (step) => void (sent = step.messages)
    })
    assert.strictEqual(await result.text, "Done.")
    assert.isBelow(JSON.stringify(sent).length, 8_000 * 5)
    assert.isTrue(sent.includes(pinned), "pinned")
    assert.isTrue(sent.includes(image), "image")
    assert.isTrue(sent.includes(thought), "thought")
    const last = sent.at(-1)
    assert.strictEqual(last?.role, "tool")
    assert.notStrictEqual(last, found)
    assert.isBelow(JSON.stringify(last).length, 20_000)
  })

  it("are not those of a run without compaction", async () => {
    await using provider = await played({ answers: [{ text: "Done." }] })
    await using agent = outlast({ models: [provider.model], log: false })
    const messages: Array<ModelMessage> = [{ role: "user", content: page("x", 200) }]
    await generateText({ ...agent.with(), messages })
    const [request] = await provider.server.requests()
    assert.isAbove(JSON.stringify(request?.body).length, 200_000)
  })
})

describe("a window that is not known", () => {
  it("is learned from the refusal, inside the model", async () => {
    await using server = await rawServer("openai", { answer: () => "Done.", window: 8_000 })
    const house = createOpenAICompatible({ name: "house", baseURL: `${server.url}/v1`, apiKey: "any" })
    const heard: Array<OutlastEvent> = []
    await using agent = outlast({
      models: [house("house")],
      compaction: true,
      onEvent: (event) => void heard.push(event),
      log: false
    })
    const messages = Array.from({ length: 20 }, (_, i): Array<ModelMessage> => [
      { role: "user", content: `Question ${i}` },
      { role: "assistant", content: page(`answer ${i}`, 3) }
    ]).flat()
    const { text } = await generateText({
      ...agent.with({ tools: { search: search() } }),
      messages: [...messages, { role: "user", content: "And now?" }]
    })
    assert.strictEqual(text, "Done.")
    assert.isTrue(heard.some((event) => event._tag === "ContextCompacted" && event.reactive))
  })

  it("that is too small for what cannot be cut ends the run with the arithmetic", async () => {
    await using provider = await played({ answers: [{ text: "Done." }] })
    await using agent = outlast({ models: [provider.model], compaction: { window: 1_000 }, log: false })
    const error = await caught(
      generateText({ ...agent.with(), instructions: page("rules", 20), prompt: "Hi" })
    )
    assert.instanceOf(error, Error)
    assert.include(error.message, "What cannot be cut: the system messages")
  })

  it("counts the schemas of the tools", async () => {
    await using provider = await played({ answers: [{ text: "Done." }] })
    await using agent = outlast({ models: [provider.model], compaction: { window: 1_000 }, log: false })
    const wide = tool({
      description: page("rules", 20),
      inputSchema: jsonSchema<{ a?: string }>({ type: "object", properties: {} }),
      execute: async () => "done"
    })
    const error = await caught(generateText({ ...agent.with({ tools: { wide } }), prompt: "Hi" }))
    assert.include((error as Error).message, "the schemas of tools")
  })
})

describe("a conversation that the program changes in place", () => {
  it("is compacted after a result has grown", async () => {
    await using provider = await rawServer("anthropic", { window: 32_000, answer: () => "Done." })
    await using agent = outlast({ models: [provider.model], compaction: { window: 32_000 }, log: false })
    const output = { type: "text" as const, value: "Short." }
    const messages: Array<ModelMessage> = [
      { role: "user", content: "Search." },
      {
        role: "assistant",
        content: [{ type: "tool-call", toolCallId: "1", toolName: "search", input: { query: "a" } }]
      },
      { role: "tool", content: [{ type: "tool-result", toolCallId: "1", toolName: "search", output }] },
      { role: "assistant", content: "Nothing yet." },
      { role: "user", content: "And now?" }
    ]
    await generateText({ ...agent.with(), messages })
    output.value = page("grown", 200)
    const heard: Array<OutlastEvent> = []
    const reading = (async () => {
      for await (const event of agent.events) heard.push(event)
    })()
    await agent.targets()
    await generateText({ ...agent.with(), messages })
    await agent.close()
    await reading
    // Before the step, without a refusal of the provider.
    assert.notInclude(
      heard.map(({ _tag }) => _tag),
      "AttemptFailed"
    )
  })
})
