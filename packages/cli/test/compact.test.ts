import { spawn } from "node:child_process"
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile
} from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { fileOf } from "../../../test/fixtures/transcripts/generate.ts"
import { linesOf, main, outlast as start } from "./process.ts"
import { outlast } from "./run.ts"
import type { Json } from "./transcripts.ts"
import { listOf } from "./transcripts.ts"

const fixture = (name: string): string => fileURLToPath(fileOf(name))
const incident = fixture("anthropic-incident")

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-compact-"))
})
afterAll(() => rm(folder, { recursive: true }))

const bodyIn = async (path: string): Promise<Json> => JSON.parse(await readFile(path, "utf8"))

const written = async (name: string, body: unknown): Promise<string> => {
  const path = join(folder, name)
  await writeFile(path, typeof body === "string" ? body : JSON.stringify(body))
  return path
}

describe("outlast compact", { timeout: 60_000 }, () => {
  it("reports the format and the cuts, and writes the result in the same format", async () => {
    const out = join(folder, "out.json")
    const run = await start(["compact", incident, "--window", "48000", "--out", out])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.strictEqual(run.stderr, "")
    const [found, window, before, after, ...rest] = linesOf(run)
    assert.strictEqual(found, `${incident}: Anthropic Messages, claude-opus-5-5`)
    // The answer of 16,000 gets 20 % of a window given by hand.
    assert.strictEqual(
      window,
      "  limit     37,440 tokens: the window of 48,000, less 9,600 for the answer and 960 in reserve"
    )
    assert.match(before ?? "", /^ {2}before {4}[\d,]+ tokens in 228 messages, estimated$/)
    assert.match(after ?? "", /^ {2}after {5}[\d,]+ tokens in 228 messages, by strip$/)
    assert.match(rest.join("\n"), /dropped {3}\d+ results, [\d,]+ characters: \d+ \w+, /)
    // The messages it was bound to have been removed.
    assert.match(rest.join("\n"), /\n +the thinking of 70 messages\n/)
    assert.strictEqual(rest.at(-1), `  written   ${out}`)
    const [was, is] = [await bodyIn(incident), await bodyIn(out)]
    assert.deepStrictEqual({ ...is, messages: [] }, { ...was, messages: [] })
    assert.deepStrictEqual(listOf(is)[0], listOf(was)[0])
    assert.notDeepEqual(is, was)
    assert.strictEqual((await stat(out)).mode & 0o777, 0o600)
  })

  it("uses the window of the model, and writes a body that fits unchanged", async () => {
    const out = join(folder, "fits.json")
    const text = `{"model":"claude-sonnet-4-5",  "max_tokens": 1, "messages":[{"role":"user","content":"Hi."}]}\n\n`
    const path = await written("odd.json", text)
    const run = await outlast(["compact", path, "--out", out])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.include(run.stdout, "limit     180,000 tokens: 90 % of the window of 200,000")
    assert.include(run.stdout, "the same: it fits")
    assert.strictEqual(await readFile(out, "utf8"), text)
  })

  it("prints one JSON object, with positions in the body", async () => {
    const small = await outlast(["compact", "--json", "--window", "45000", fixture("openai-repository")])
    assert.strictEqual(small.exitCode, 0, small.stderr)
    assert.lengthOf(linesOf(small), 1)
    const report = JSON.parse(small.stdout)
    assert.deepStrictEqual(Object.keys(report), ["format", "tokensBefore", "tokensAfter", "tier", "dropped"])
    assert.deepInclude(report, { format: "openai-chat", tier: "strip" })
    assert.isBelow(report.tokensAfter, report.tokensBefore)
    const messages = listOf(await bodyIn(fixture("openai-repository")))
    for (const { what, at, role, call } of report.dropped) {
      assert.strictEqual(messages[at]?.["role"], role)
      if (what === "result") assert.strictEqual(messages[at]?.["tool_call_id"], call)
    }
    const fits = await outlast(["compact", "--json", fixture("openai-repository")])
    const { tokensBefore } = report
    assert.deepStrictEqual(JSON.parse(fits.stdout), {
      format: "openai-chat",
      tokensBefore,
      tokensAfter: tokensBefore,
      tier: "none",
      dropped: []
    })
  })

  it("counts with the tokenizer of the model if it is public", async () => {
    const text = " strawberry".repeat(1_000)
    const count = async (model: string) => {
      const path = await written(`${model}.json`, {
        model,
        stop: [],
        messages: [{ role: "user", content: text }]
      })
      const run = await outlast(["compact", path, "--json"])
      return JSON.parse(run.stdout).tokensBefore
    }
    assert.approximately(await count("gpt-4o"), 1_000, 5)
    assert.approximately(await count("qwen-plus"), text.length / 4, 5)
  })

  it("reports positions in the body when it splits one of its messages", async () => {
    const run = await outlast(["compact", "--json", "--window", "45000", fixture("gemini-operations")])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    const contents = listOf(await bodyIn(fixture("gemini-operations")))
    const { format, dropped } = JSON.parse(run.stdout)
    assert.strictEqual(format, "gemini")
    assert.isNotEmpty(dropped)
    for (const { what, at, call } of dropped) {
      const field = what === "arguments" ? "functionCall" : "functionResponse"
      assert.include(JSON.stringify(contents[at]), `"${field}":{"id":"${call}"`)
    }
  })

  it("reads standard input, and prompts of effect/ai", async () => {
    const input = await readFile(fixture("effect-support"), "utf8")
    const run = await start(["compact", "-", "--window", "20000"], { input })
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.match(run.stdout, /^-: effect\/ai\n/)
    assert.include(run.stdout, "Nothing was written: --out FILE keeps the compacted transcript.")
  })

  it("overwrites its input on request, also through a link", async () => {
    const path = join(folder, "own.json")
    const link = join(folder, "link.json")
    await copyFile(fixture("gemini-analysis"), path)
    await symlink(path, link)
    const run = await outlast(["compact", link, "--window", "26000", "--out", link])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.isTrue((await lstat(link)).isSymbolicLink())
    const text = await readFile(path, "utf8")
    // The indentation is kept.
    assert.match(text, /^\{\n {2}"model": "models\/gemini-2\.5-pro",\n/)
    assert.isBelow(text.length, (await readFile(fixture("gemini-analysis"), "utf8")).length)
    const again = await outlast(["compact", link, "--window", "26000"])
    assert.include(again.stdout, "it fits")
  })
})

describe("a transcript that cannot be made to fit", { timeout: 60_000 }, () => {
  it("exits with 1, names the parts that cannot be cut, and writes nothing", async () => {
    const big = "word ".repeat(3_000)
    const path = await written("big.json", {
      system: "Short.",
      model: "claude-sonnet-4-5",
      messages: [
        { role: "user", content: "Go." },
        { role: "assistant", content: "Yes." },
        { role: "user", content: big },
        { role: "assistant", content: "Yes." }
      ]
    })
    const out = await written("kept.json", "before")
    const run = await outlast(["compact", path, "--window", "2000", "--out", out])
    assert.strictEqual(run.exitCode, 1)
    assert.strictEqual(run.stdout, "")
    assert.match(
      run.stderr,
      /^outlast compact: The file .*big\.json cannot be made to fit\. The conversation has 3,[\d,]+ tokens/
    )
    assert.include(run.stderr, "What cannot be cut: the protected end (")
    assert.match(run.stderr, /\nThe largest messages that must stay: messages\[2\] \(3,\d+ tokens\), /)
    assert.notInclude(run.stderr, "summariser")
    assert.notInclude(run.stderr, "word word")
    assert.strictEqual(await readFile(out, "utf8"), "before")
  })
})

describe("an error with --json", { timeout: 60_000 }, () => {
  const hello = [{ role: "user", content: "hello" }]

  it.concurrent.each([
    [
      "a mistake in the JSON",
      `{"messages":\n [nonsense]}`,
      [],
      { _tag: "UsageError", line: 2, column: 3 },
      2
    ],
    [
      "a broken transcript",
      { model: "claude-sonnet-4-5", messages: [{ role: "user", content: [{ type: "tool_result" }] }] },
      [],
      { _tag: "UsageError", path: "messages[0].content[0].tool_use_id" },
      2
    ],
    ["an unknown window", { messages: hello }, [], { _tag: "UsageError" }, 2],
    [
      "a conversation that cannot fit",
      { model: "claude-sonnet-4-5", messages: [{ role: "user", content: "word ".repeat(3_000) }] },
      ["--window", "2000"],
      {
        _tag: "CannotFit",
        window: 2_000,
        limit: 1_800,
        arithmetic: "90 % of the window of 2,000"
      },
      1
    ],
    [
      "a result that cannot be written",
      { model: "claude-sonnet-4-5", messages: hello },
      ["--out", tmpdir()],
      { _tag: "UsageError" },
      2
    ]
  ] as const)("is one JSON object with a tag: %s", async (name, body, args, expected, exitCode) => {
    const path = await written(`${name.replaceAll(" ", "-")}.json`, body)
    const run = await outlast(["compact", path, "--json", ...args])
    assert.deepStrictEqual([run.exitCode, run.stderr], [exitCode, ""])
    const lines = linesOf(run)
    assert.lengthOf(lines, 1)
    const { error } = JSON.parse(lines[0] ?? "")
    assert.deepInclude(error, expected)
    assert.isNotEmpty(error.message)
  })
})

describe("a transcript that cannot be read", { timeout: 60_000 }, () => {
  const secret = "sk-very-secret"
  const hello = [{ role: "user", content: secret }]
  const cases: ReadonlyArray<readonly [name: string, body: unknown, says: RegExp]> = [
    ["empty", " \n", /^outlast compact: The file .*empty\.json is empty\. Expected a transcript in JSON\.$/m],
    [
      "cut",
      `{"messages":\n [{"role":"${secret}`,
      /is not JSON: it ends too early, at line 2, column \d+\.$/m
    ],
    ["no-json", `{"messages":\n [${secret}]}`, /is not JSON: see line 2, column 3\.$/m],
    ["unknown", { hello }, /is not a transcript\. It has no list of messages\. Expected one JSON object/],
    ["ambiguous", { messages: hello }, /Nothing in it tells Anthropic Messages from OpenAI/],
    [
      "misshapen",
      {
        system: "s",
        messages: [...hello, { role: "user", content: [{ type: "tool_result", tool_use_id: 7 }] }]
      },
      /is broken at messages\[1\]\.content\[0\]\.tool_use_id: expected a string, got a number\.$/m
    ],
    [
      "orphan",
      { stop: [], messages: [...hello, { role: "tool", tool_call_id: "x", content: secret }] },
      /is broken at messages\[1\]\.tool_call_id: a result without its call/
    ],
    [
      "nameless",
      { contents: [{ parts: [{ text: secret }] }] },
      /How large is the window\? the transcript names no model\. Say it in tokens: --window 200000\.$/m
    ],
    [
      "new-model",
      { system: "s", model: "claude-99", messages: hello },
      /nothing is known of "claude-99"\. Say it in tokens/
    ],
    [
      "no-room",
      { system: "s", model: "claude-sonnet-4-5", max_tokens: 199_000, messages: hello },
      /A window of 200000 tokens has no room beside an answer of 199000, which max_tokens allows\.$/m
    ]
  ]
  it.concurrent.each(cases)("exits with 2 and the reason: %s", async (name, body, says) => {
    const path = await written(`${name}.json`, body)
    const run = await outlast(["compact", path])
    assert.strictEqual(run.exitCode, 2, run.all)
    assert.match(run.stderr, says)
    assert.strictEqual(run.stdout, "")
    assert.notInclude(run.stderr, secret)
    assert.isAtMost(run.stderr.trim().split("\n").length, 1)
  })

  const misuse: ReadonlyArray<readonly [what: string, args: () => ReadonlyArray<string>, says: RegExp]> = [
    ["no file", () => [], /file/],
    [
      "no such file",
      () => [join(folder, "nowhere.json")],
      /nowhere\.json cannot be read: the file does not exist$/m
    ],
    ["a directory", () => [folder], /cannot be read: it is a directory$/m],
    ["a window of 0", () => [incident, "--window", "0"], /--window must be at least 1, got 0\.$/m],
    ["a window that is no number", () => [incident, "--window", "many"], /--window/],
    ["standard output", () => [incident, "--out", "-"], /--out takes a file/],
    ["two files", () => [incident, "extra"], /"extra"/]
  ]
  it.concurrent.each(misuse)("reports the mistake in the command: %s", async (_, args, says) => {
    const run = await outlast(["compact", ...args()])
    assert.strictEqual(run.exitCode, 2, run.all)
    assert.match(run.stderr, says)
    assert.strictEqual(run.stdout, "")
  })
})

describe("an output that cannot be written", { timeout: 60_000 }, () => {
  it("is reported, and the old file stays", async () => {
    const closed = join(folder, "closed")
    await mkdir(closed)
    const old = join(closed, "old.json")
    await writeFile(old, "before")
    await chmod(closed, 0o500)
    // The superuser may write anywhere.
    const asRoot = process.getuid?.() === 0
    for (const [out, said] of [
      [join(folder, "nowhere", "a.json"), /a\.json cannot be written: the directory does not exist$/m],
      [folder, /cannot be written: it is a directory$/m],
      ...(asRoot ? [] : [[old, /cannot be written: permission is denied$/m] as const])
    ] as const) {
      const run = await outlast(["compact", incident, "--window", "40000", "--out", out])
      assert.strictEqual(run.exitCode, 2, run.all)
      assert.match(run.stderr, said)
      assert.strictEqual(run.stdout, "")
    }
    await chmod(closed, 0o700)
    assert.strictEqual(await readFile(old, "utf8"), "before")
    assert.deepStrictEqual(await readdir(closed), ["old.json"])
    const left = await readdir(folder)
    assert.isEmpty(left.filter((name) => name.startsWith(".outlast-")))
  })

  it("keeps the old file when the disk is full", async ({ skip }) => {
    if (process.platform !== "linux") return skip("There is no limit on the size of files.")
    const out = await written("old.json", "before")
    // A file size limit of 8 kB simulates a full disk.
    const command = `trap '' XFSZ; ulimit -f 16; exec "$0" "$@"`
    const args = [command, process.execPath, main, "compact", incident, "--window", "40000", "--out", out]
    const child = spawn("sh", ["-c", ...args], { stdio: ["ignore", "pipe", "pipe"] })
    let stderr = ""
    child.stderr.on("data", (chunk) => (stderr += chunk))
    const exitCode = await new Promise((resolve) => child.on("close", resolve))
    assert.match(stderr, /^outlast compact: The file .*old\.json cannot be written: /)
    assert.strictEqual(exitCode, 1, stderr)
    assert.strictEqual(await readFile(out, "utf8"), "before")
    assert.isEmpty((await readdir(folder)).filter((name) => name.startsWith(".outlast-")))
  })
})
