/** The chat in a pipe: one message or command a line. */
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { outlast as start } from "../process.ts"
import { outlast } from "../run.ts"

const slow = { timeout: 60_000 }

const chat = (lines: ReadonlyArray<string>, args: ReadonlyArray<string> = [], env = {}) =>
  outlast(["chat", ...args], { input: lines.map((line) => `${line}\n`).join(""), env })

describe("outlast chat in a pipe", () => {
  it("writes answers to standard output, and the recovery to standard error", slow, async () => {
    // A process of its own, with its real streams.
    const input = "Hello!\n\n/simulate-failure rate_limit\nTell me a joke\n"
    const run = await start(["chat"], { input })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.deepStrictEqual(run.stdout.split("\n"), [
      "Hello! What shall we break today?",
      "The next attempt fails with rate_limit. Send a message to see the recovery.",
      "Why did the agent retry? It wanted to outlast the joke.",
      ""
    ])
    assert.match(run.stderr, /✗ RateLimit \(HTTP 429\)\n/)
    assert.notInclude(run.all, "\u001b")
  })

  it("answers the last line without a line break", slow, async () => {
    const run = await outlast(["chat"], { input: "Hello!" })
    assert.strictEqual(run.stdout, "Hello! What shall we break today?\n")
  })

  it("names what exists for mistakes, goes on, and ends with 1", slow, async () => {
    const run = await chat([
      "/profile",
      "/simulate-failure rat_limit",
      "/preset nex0",
      "/trip antropic",
      "/reset mein-key",
      "/compact",
      "Hello!"
    ])
    assert.strictEqual(run.exitCode, 1, run.all)
    for (const guess of ["/profiles", "rate_limit", "nexo", "anthropic", "main-key"]) {
      assert.include(run.stderr, `Did you mean ${guess}?`)
    }
    assert.match(run.stderr, /Circuits: anthropic, anthropic\/claude-sonnet-4-5, openai, openai\/gpt-4\.1\./)
    assert.match(run.stdout, /nothing to compact yet[^]*What shall we break today\?/)
  })

  it("trips a circuit, falls back, and resets it", slow, async () => {
    const run = await chat([
      "/trip anthropic",
      "Hello!",
      "/circuits",
      "/reset anthropic",
      "/circuits",
      "Hello!"
    ])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.match(run.stdout, /^ +anthropic +open +probe in \d+ s\n/)
    assert.match(run.stderr, /→ openai\/gpt-4\.1#openai-key\n[^]*→ anthropic\/claude-sonnet-4-5#main-key\n/)
    assert.match(run.stdout, /closed anthropic\.\n +anthropic +closed\n/)
  })

  it("shows the typed failure of a call with what to do, and goes on", slow, async () => {
    const run = await chat([
      "/simulate-failure auth 4",
      "Hello!",
      "/cooldowns",
      "/reset all",
      "/cooldowns",
      "Tell me a joke",
      "/stats"
    ])
    assert.strictEqual(run.exitCode, 1, run.all)
    assert.match(run.stdout, /✗ No target is left after 4 attempts\.[^]*Set main-key to a valid key/)
    assert.match(
      run.stdout,
      /Ended 4 cooldowns, closed no circuit\.\nNo cooldowns: every target may be asked\.\nWhy did/
    )
    assert.match(run.stdout, /failures +1 call after all recovery/)
  })

  it("changes the preset and keeps the conversation, which it compacts", slow, async () => {
    const run = await chat([
      "Read many files consecutively.",
      "/preset claw0",
      "/circuits",
      "/guard",
      "/compact",
      "/simulate-failure timeout",
      "Hello!",
      "/preset"
    ])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.match(run.stdout, /Preset claw0 has no circuits\./)
    assert.match(run.stdout, /tool calls +13 of 400\n/)
    assert.match(run.stdout, /Compacted \(\w+\): \d+ → \d+ tokens/)
    assert.match(run.stderr, /profile main-key: timeout, cools down for 60s\n/, run.all)
    assert.match(run.stdout, /\* +claw0 +no circuits/)
  })

  it("trips and resets a circuit of each preset that has circuits", slow, async () => {
    for (const preset of ["interactive", "background", "decision037", "nexo"]) {
      const lines = ["/trip anthropic", "Hello!", "/reset all", "Hello!"]
      const run = await chat(lines, ["--preset", preset])
      assert.strictEqual(run.exitCode, 0, run.all)
      assert.match(run.stdout, /^ +\S*anthropic\S* +open +probe in /)
      assert.match(run.stdout, /\nEnded 0 cooldowns, closed \S*anthropic\S*\.\n/)
      assert.match(run.stderr, /^→ openai\/gpt-4\.1[^]*\n→ anthropic\/claude-sonnet-4-5#main-key\n/)
    }
    for (const preset of ["codebuddy", "s11", "claw0"]) {
      const run = await chat(["/trip anthropic", "/reset all"], ["--preset", preset])
      assert.strictEqual(run.exitCode, 1, run.all)
      assert.include(run.stderr, `Preset ${preset} has no circuits.`)
      assert.include(run.stdout, "Ended 0 cooldowns")
    }
  })

  it("runs every preset", slow, async () => {
    for (const preset of ["background", "codebuddy", "decision037", "nexo"]) {
      const run = await chat(["/circuits", "Hello!", "/events", "/guard"], ["--preset", preset])
      assert.strictEqual(run.exitCode, 0, run.all)
      assert.include(run.stdout, "What shall we break today?")
      assert.match(run.stdout, /→ anthropic\/claude-sonnet-4-5#main-key\n✓ claude-sonnet-4-5/)
    }
  })

  it("reads the files of a folder, without hidden ones, links and folders above", slow, async () => {
    const folder = await mkdtemp(join(tmpdir(), "outlast-chat-test-"))
    try {
      await writeFile(join(folder, "a.txt"), "one")
      await writeFile(join(folder, "b.txt"), "two")
      await writeFile(join(folder, ".env"), "SECRET=1")
      await symlink("/etc/hostname", join(folder, "c.txt"))
      const run = await chat(["Read many files", "/guard"], ["--folder", folder])
      assert.strictEqual(run.exitCode, 0, run.all)
      assert.strictEqual(run.stderr.split("⚒ read_file").length - 1, 2)
      assert.match(run.stdout, /tool calls +3 of 400/)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  const misuse: ReadonlyArray<readonly [what: string, args: ReadonlyArray<string>, says: RegExp]> = [
    ["real providers without a key", ["--real"], /--real needs a key\.[^]*ANTHROPIC_API_KEY/],
    ["an unknown preset", ["--preset", "s12"], /Did you mean s11\? Presets: interactive/],
    ["a folder that is not there", ["--folder", "/nowhere"], /The folder \/nowhere cannot be read/],
    [
      "a fallback model that the chain does not have",
      ["--preset", "s11"],
      /must be "claude-sonnet-4-5" or "gpt-4\.1"[^]*FALLBACK_MODEL_ID/
    ]
  ]
  for (const [what, args, says] of misuse) {
    it(`reports ${what}, and ends with 2`, slow, async () => {
      const run = await outlast(["chat", ...args], {
        input: "Hello!\n",
        env: { FALLBACK_MODEL_ID: "gpt-5" }
      })
      assert.strictEqual(run.exitCode, 2, run.all)
      assert.match(run.stderr, says)
      assert.strictEqual(run.stdout, "")
    })
  }
})
