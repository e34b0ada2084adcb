import { execFileSync } from "node:child_process"
import { lstat, mkdtemp, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import * as CompactReport from "#cli/compact/CompactReport"
import { linesOf } from "./process.ts"
import { outlast } from "./run.ts"
import { compact, listOf, problemOf, read, tokensOf } from "./transcripts.ts"
import type { Json } from "./transcripts.ts"

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-hostile-"))
})
afterAll(() => rm(folder, { recursive: true }))

const written = async (name: string, body: string | Buffer): Promise<string> => {
  const path = join(folder, name)
  await writeFile(path, body)
  return path
}

const words = (n: number): string => "word ".repeat(n)
const hello = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Hi." }
]

/** A chat with much more than 1,000 tokens, and the window of its test. */
const long = {
  model: "gpt-4.1",
  messages: [
    ...hello,
    ...Array.from({ length: 10 }, (_, i) => [
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: `c${i}`, type: "function", function: { name: "read", arguments: "{}" } }]
      },
      { role: "tool", tool_call_id: `c${i}`, content: words(200) }
    ]).flat(),
    { role: "user", content: "Go on." }
  ]
}

describe("a file", { timeout: 60_000 }, () => {
  it("with a byte order mark is read, and written unchanged when it fits", async () => {
    const bytes = Buffer.from(`\ufeff${JSON.stringify({ model: "gpt-4.1", messages: hello })}`)
    const path = await written("bom.json", bytes)
    const out = join(folder, "bom.out.json")
    const run = await outlast(["compact", path, "--out", out])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.isTrue((await readFile(out)).equals(bytes))
  })

  it("that is not UTF-8 is rejected with its line, and not overwritten", async () => {
    const bytes = Buffer.from(
      `{ "model": "gpt-4.1",\n"messages": [{ "role": "system", "content": "\ufffd" },\n{ "role": "user", "content": "caf\u00e9" }] }`,
      "latin1"
    )
    // Latin-1 has no U+FFFD: the byte `fd` stands for it, which is not valid UTF-8 either.
    const path = await written("latin1.json", bytes)
    const run = await outlast(["compact", path, "--out", path])
    assert.strictEqual(run.exitCode, 2, run.all)
    assert.match(run.stderr, /latin1\.json is not UTF-8: see line 2\.$/m)
    assert.isTrue((await readFile(path)).equals(bytes))
    const piped = await outlast(["compact", "-"], {
      input: JSON.stringify({ model: "gpt-4.1", messages: hello })
    })
    assert.strictEqual(piped.exitCode, 0, piped.all)
  })

  it("keeps its line ends", async () => {
    const crlf = (value: unknown) => `${JSON.stringify(value, undefined, 2).replaceAll("\n", "\r\n")}\r\n`
    const path = await written("crlf.json", crlf(long))
    const out = join(folder, "crlf.out.json")
    const run = await outlast(["compact", path, "--window", "1500", "--out", out])
    assert.strictEqual(run.exitCode, 0, run.all)
    const text = await readFile(out, "utf8")
    assert.strictEqual(text, crlf(JSON.parse(text)))
    assert.notStrictEqual(text, crlf(long))
  })
})

describe("--window", { timeout: 60_000 }, () => {
  it.concurrent.each([
    [{ messages: hello }, 1, "A window of 1 tokens has no room for a conversation."],
    // The answer gets at most 20 % of a window given by hand. The reserve of the rest is less than one token.
    [
      { messages: hello, max_completion_tokens: 1_000 },
      1,
      "A window of 1 tokens has no room beside an answer of 1000, which max_completion_tokens allows."
    ]
  ])("of no use is a mistake of the command, not a crash: %#", async (body, window, says) => {
    const path = await written(`window-${Object.keys(body).length}.json`, JSON.stringify(body))
    const run = await outlast(["compact", path, "--window", `${window}`])
    assert.deepStrictEqual([run.exitCode, run.stderr], [2, `outlast compact: ${says}\n`])
  })
})

describe("--out", { timeout: 60_000 }, () => {
  it("rejects anything but a regular file", async ({ skip }) => {
    if (process.platform === "win32") return skip("There are no pipes with names.")
    const path = await written("long.json", JSON.stringify(long))
    const pipe = join(folder, "pipe")
    execFileSync("mkfifo", [pipe])
    const run = await outlast(["compact", path, "--window", "1500", "--out", pipe])
    assert.strictEqual(run.exitCode, 2, run.all)
    assert.match(run.stderr, /pipe cannot be written: it is not a regular file$/m)
    assert.isTrue((await stat(pipe)).isFIFO())
  })

  it("does not replace a broken link", async () => {
    const path = await written("linked.json", JSON.stringify(long))
    const link = join(folder, "link")
    await symlink("nowhere.json", link)
    const run = await outlast(["compact", path, "--window", "1500", "--out", link])
    assert.strictEqual(run.exitCode, 2, run.all)
    assert.match(run.stderr, /link cannot be written: it is a link that leads nowhere$/m)
    assert.isTrue((await lstat(link)).isSymbolicLink())
    assert.strictEqual(await readlink(link), "nowhere.json")
  })
})

describe("the report", { timeout: 60_000 }, () => {
  const call = (id: string) => ({ type: "tool_use", id, name: "edit", input: { text: words(100) } })
  const messages = [
    { role: "user", content: "Go." },
    ...Array.from({ length: 10 }, (_, i) => [
      { role: "assistant", content: `First. ${words(40)}` },
      {
        role: "assistant",
        content: [{ type: "thinking", thinking: words(20), signature: "s" }, call(`c${i}`)]
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: `c${i}`, content: words(100) }] }
    ]).flat(),
    { role: "assistant", content: "Done." },
    { role: "user", content: "Well?" },
    { role: "assistant", content: "Yes." },
    { role: "user", content: "Go on." }
  ]
  const body: Json = { system: "Be brief.", messages }

  it("names each removed message, also those that compaction treats as one", async () => {
    const made = await compact(body, 1_000)
    assert.strictEqual(made.report.tier, "plain")
    const { dropped } = CompactReport.summary(made.before, made.report)
    const left = new Set(listOf(made.body).map((message) => JSON.stringify(message)))
    // The first messages of the turns are equal. Their calls tell them apart.
    const gone = messages.flatMap((message, at) => (left.has(JSON.stringify(message)) ? [] : [at]))
    assert.isAbove(gone.length, 10)
    const named = new Set(dropped.map(({ at }) => at))
    assert.deepStrictEqual(
      gone.filter((at) => !named.has(at)),
      []
    )
    // The counts match too.
    const said = CompactReport.lines("x", made.before, made.report, {
      size: listOf(made.body).length,
      file: undefined,
      tokenizer: undefined
    })
    assert.match(said.join("\n"), new RegExp(`dropped {3}${dropped.length} messages: `))
  })

  it("names the position of calls whose arguments were cut, and the removed thinking", async () => {
    const made = await compact(body, 4_500, { bindsThinking: true })
    assert.strictEqual(made.report.tier, "strip")
    const { dropped } = CompactReport.summary(made.before, made.report)
    const args = dropped.filter(({ what }) => what === "arguments")
    assert.isNotEmpty(args)
    for (const { at, call: id } of args) {
      assert.include(JSON.stringify(messages[at]), `"id":"${id}"`)
    }
    const thinking = dropped.filter(({ what }) => what === "thinking")
    assert.isNotEmpty(thinking)
    for (const { at } of thinking) assert.include(JSON.stringify(messages[at]), '"thinking"')
  })
})

describe("consecutive assistant messages", () => {
  const said = (text: string) => ({ role: "assistant", content: text })
  const talk = (n: number) => Array.from({ length: n }, (_, i) => said(`Part ${i}. ${words(40)}`))

  it("are removed one by one, the oldest first, when each has its own text", async () => {
    const end = { role: "user", content: "Go on." }
    const messages = [{ role: "user", content: "Go." }, ...talk(60), end]
    const { body, report } = await compact({ system: "Be brief.", messages }, 2_000)
    assert.strictEqual(report.tier, "plain")
    // As many as fit, and the last four in any case.
    assert.isAbove(listOf(body).length, 10)
    assert.deepStrictEqual(listOf(body).slice(-10), messages.slice(-10))
  })

  it("stay together when one has a call of the provider and the next its result", () => {
    const search = { type: "server_tool_use", id: "s", name: "web_search", input: {} }
    const found = { type: "web_search_tool_result", tool_use_id: "s", content: [] }
    const messages = [
      { role: "user", content: "Go." },
      said("I look."),
      { role: "assistant", content: [search] },
      { role: "assistant", content: [found] },
      said("Here."),
      { role: "user", content: "Thanks." }
    ]
    assert.deepStrictEqual(
      read({ system: "s", messages }).prompt.content.map(({ content }) => content.length),
      // The text of the system message, and each part of the others.
      [1, 1, 1, 3, 1]
    )
  })

  it("stay together at the end, even when they begin before the kept tail", async () => {
    const parts = (i: number) => [
      { role: "assistant", content: [{ type: "thinking", thinking: `Hm ${i}.`, signature: "s" }] },
      ...talk(4)
    ]
    const turns = Array.from({ length: 12 }, (_, i) => [...parts(i), { role: "user", content: `On ${i}.` }])
    const messages = [{ role: "user", content: "Go." }, ...turns.flat()]
    const { body, report } = await compact({ system: "Be brief.", messages }, 450)
    assert.strictEqual(report.tier, "plain")
    assert.deepStrictEqual(listOf(body).slice(-4), messages.slice(-4))
  })
})

describe("a body", () => {
  it("of Anthropic may have tools without a name", () => {
    const tools = [
      { type: "mcp_toolset", mcp_server_name: "files" },
      { name: "read", input_schema: { type: "object" } }
    ]
    const body = { tools, messages: [{ role: "user", content: "Hi." }] }
    assert.deepStrictEqual(
      read(body).tools.map(({ name }) => name),
      ["mcp_toolset", "read"]
    )
    assert.strictEqual(
      problemOf({ ...body, tools: [{ input_schema: {} }] }),
      "tools[0].name: expected a string, got nothing"
    )
  })

  it("of Gemini gives the same result in both spellings", async () => {
    const text = words(400)
    const camel = {
      systemInstruction: { parts: [{ text: words(50) }] },
      generationConfig: { maxOutputTokens: 77 },
      tools: [{ functionDeclarations: [{ name: "read", description: words(20) }] }],
      contents: [
        {
          role: "user",
          parts: [{ text: "Go." }, { inlineData: { mimeType: "image/png", data: "A".repeat(9_000) } }]
        },
        ...Array.from({ length: 10 }, () => [
          { role: "model", parts: [{ functionCall: { name: "read", args: { text: words(60) } } }] },
          { role: "user", parts: [{ functionResponse: { name: "read", response: { output: text } } }] }
        ]).flat(),
        { role: "model", parts: [{ functionCall: { name: "read", args: { text } }, thoughtSignature: "s" }] },
        { role: "user", parts: [{ functionResponse: { name: "read", response: { output: text } } }] },
        { role: "model", parts: [{ text: "Done." }] },
        { role: "user", parts: [{ text: "Go on." }] }
      ]
    }
    const snake = (body: unknown): Json =>
      JSON.parse(
        JSON.stringify(body).replaceAll(
          /"([a-z]+(?:[A-Z][a-z]+)+)":/g,
          (_, name: string) => `"${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}":`
        )
      )
    assert.deepStrictEqual(Object.keys(snake(camel)).slice(0, 2), ["system_instruction", "generation_config"])
    assert.strictEqual(tokensOf(read(snake(camel))), tokensOf(read(camel)))
    const { outputLimit } = read(snake(camel))
    assert.deepStrictEqual(outputLimit, { tokens: 77, field: "generation_config.max_output_tokens" })
    const [one, other] = [await compact(camel, 5_000), await compact(snake(camel), 5_000)]
    assert.strictEqual(one.report.tier, "strip")
    assert.deepStrictEqual(other.body, snake(one.body))
    assert.deepStrictEqual(other.report.dropped.length, one.report.dropped.length)
  })
})

describe("a request to the provider", { timeout: 60_000 }, () => {
  it("succeeds for a window that is just large enough", async () => {
    const path = await written("just.json", JSON.stringify({ messages: hello, max_completion_tokens: 1_000 }))
    const run = await outlast(["compact", path, "--window", "1060", "--json"])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.strictEqual(JSON.parse(linesOf(run)[0] ?? "").tier, "none")
  })
})
