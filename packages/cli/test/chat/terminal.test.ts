/** The chat as a person uses it: in a pseudo-terminal. The lines are those of the documents of claw0 and s11. */
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { open } from "./terminal.ts"
import type { TerminalChat } from "./terminal.ts"

const slow = 60_000

describe("the Try it of claw0", () => {
  let chat: TerminalChat
  const shown = new Map<string, string>()
  const after = (line: string): string => shown.get(line) ?? ""
  beforeAll(async () => {
    chat = await open([])
    for (const line of [
      "Hello!",
      "/profiles",
      "/simulate-failure rate_limit",
      "Tell me a joke",
      "/simulate-failure auth",
      "What time is it?",
      "/cooldowns",
      "/fallback",
      "/stats"
    ]) {
      shown.set(line, await chat.type(line))
    }
    chat.press("\u0004")
    await chat.exitCode
  }, slow)
  afterAll(() => chat.kill())

  it("answers a normal message by one profile", () => {
    assert.match(
      after("Hello!"),
      /→ anthropic\/claude-sonnet-4-5#main-key\nHello! What shall we break today\?\n✓/
    )
    assert.notInclude(after("Hello!"), "backup-key")
  })

  it("shows the status of the profiles", () => {
    assert.match(
      after("/profiles"),
      /#main-key +ready +answered \d+ m?s ago\n.*#backup-key +ready +no answer yet/
    )
  })

  it("shows the rotation after a simulated rate limit", () => {
    assert.include(after("/simulate-failure rate_limit"), "The next attempt fails with rate_limit")
    assert.match(
      after("Tell me a joke"),
      /#main-key\n✗ RateLimit \(HTTP 429\)\n[^]*→ anthropic\/claude-sonnet-4-5#backup-key, attempt 2\nWhy did the agent/
    )
  })

  it("shows the rotation after a simulated auth failure", () => {
    assert.match(
      after("What time is it?"),
      /#backup-key\n✗ Auth \(HTTP 401\)\n[^]*→ anthropic\/claude-sonnet-4-5#emergency-key, attempt 2\n[^]*⚒ current_time\n[^]*It is \w{3} \w{3} \d\d \d{4}/
    )
  })

  it("shows the cooldowns with their reasons", () => {
    assert.match(after("/cooldowns"), /#main-key +key\+model +back in \d+ s +rate limited \(HTTP 429\)/)
    assert.match(after("/cooldowns"), /#backup-key +key +back in \d+ s +the key was refused \(HTTP 401\)/)
  })

  it("shows the fallback chain and which model is asked next", () => {
    assert.match(
      after("/fallback"),
      /1\. +anthropic\/claude-sonnet-4-5 +3 keys, 1 ready +← asked next\n +2\. +openai\/gpt-4\.1 +1 key, 1 ready/
    )
  })

  it("shows statistics of the resilience", () => {
    const words = after("/stats")
      .split("\n")
      .map((line) => line.trim().split(/ {2,}/))
    const stats = Object.fromEntries(words.map(([name = "", value = ""]) => [name, value]))
    assert.deepInclude(stats, {
      attempts: "6 (2 failed)",
      successes: "4",
      failures: "0 calls after all recovery",
      rotations: "2",
      compactions: "0 (0 tokens freed)",
      "max iterations": "50"
    })
  })

  it("ends with Ctrl-D", async () => {
    assert.strictEqual(await chat.exitCode, 0)
  })
})

describe("the three prompts of s11", () => {
  let chat: TerminalChat
  beforeAll(async () => {
    chat = await open(["--preset", "s11"], { FALLBACK_MODEL_ID: "gpt-4.1" })
  }, slow)
  afterAll(() => chat.kill())

  it("a very long piece of code is cut, and goes on with the raised limit", { timeout: slow }, async () => {
    const shown = await chat.type("Generate a very long piece of code.")
    assert.include(shown, "[max_tokens] escalating 8000 -> 64000")
    // The continuation completes the last line.
    assert.match(shown, /\) => \w+\(\w+, \d+\)\n✓ claude-sonnet-4-5/)
  })

  it("reading many files fills the context, which is compacted reactively", { timeout: slow }, async () => {
    const shown = await chat.type("Read many files consecutively.")
    assert.match(shown, /✗ ContextOverflow \(HTTP 400\)\n/)
    assert.match(shown, /reactive compact \(plain\): [\d,]+ → [\d,]+ tokens, window 30,000\n/)
    assert.strictEqual(shown.split("⚒ read_file").length - 1, 12)
    assert.include(shown, "I have read all files.")
  })

  it(
    "a 429 and a 529 show the backoff, and the third 529 switches the model",
    { timeout: slow },
    async () => {
      await chat.type("/simulate-failure rate_limit")
      assert.match(await chat.type("Hello"), /\[429 rate limit\] retry 1\/10, wait 0\.[56]s\n/)
      await chat.type("/simulate-failure overloaded 3")
      const shown = await chat.type("Hello")
      assert.match(
        shown,
        /\[529 overloaded\] retry 2\/10, wait 1\.\ds\n[^]*\[529 x3\] switching to gpt-4\.1\n/
      )
      assert.include(shown, "Switched to gpt-4.1 due to high demand")
    }
  )
})

describe("keys of a terminal", () => {
  let chat: TerminalChat
  beforeAll(async () => {
    chat = await open([])
  }, slow)
  afterAll(() => chat.kill())

  it("Ctrl-C cancels the answer, and the chat goes on", { timeout: slow }, async () => {
    chat.press("Count to 10000\r")
    await chat.until(/ 4 5 /)
    chat.press("\u0003")
    await chat.until(/\nCancelled\. The message was not added to the conversation\.\r?\n/)
    await chat.until(/You > /)
    assert.include(await chat.type("Hello"), "What shall we break today?")
  })

  it(
    "/trip and /reset open and close a circuit of every preset that has some",
    { timeout: slow },
    async () => {
      for (const preset of ["interactive", "background", "decision037", "nexo"]) {
        assert.include(await chat.type(`/preset ${preset}`), `Preset ${preset}.`)
        assert.match(await chat.type("/trip anthropic"), /anthropic\S* +open +probe in /)
        assert.match(await chat.type("/circuits"), /anthropic\S* +open/)
        assert.match(await chat.type("Hello"), /→ openai\/gpt-4\.1/)
        assert.match(await chat.type("/reset anthropic"), /closed \S*anthropic/)
        assert.notMatch(await chat.type("/circuits"), / open /)
        assert.match(await chat.type("Hello"), /→ anthropic\/claude-sonnet-4-5#main-key/)
      }
      for (const preset of ["codebuddy", "s11", "claw0"]) {
        await chat.type(`/preset ${preset}`)
        assert.include(await chat.type("/trip anthropic"), "has no circuits")
      }
      await chat.type("/preset interactive")
    }
  )

  it("Ctrl-C during a wait of the recovery cancels the message", { timeout: slow }, async () => {
    await chat.type("/preset background")
    await chat.type("/simulate-failure overloaded 90")
    chat.press("Hello\r")
    await chat.until(/… waiting/)
    chat.press("\u0003")
    await chat.until(/Cancelled\./)
    assert.notInclude(await chat.until(/You > /), "→", "no attempt follows")
  })

  it(
    "Tab completes a command and its argument, and /why explains the failure",
    { timeout: slow },
    async () => {
      await chat.type("/preset interactive")
      chat.press("/sim")
      chat.press("\t")
      await chat.until(/ulate-failure /)
      chat.press("rat")
      chat.press("\t")
      await chat.until(/e_limit/)
      assert.include(await chat.type(""), "The next attempt fails with rate_limit")
      await chat.type("Hello")
      assert.match(
        await chat.type("/why"),
        /Rate limited \(HTTP 429\)\.\n +target +\S+#main-key\n +reason +RateLimit\n[^]* then +→ \S+#backup-key, attempt 2\n[^]* now +cooling, back in \d+ s\n/
      )
    }
  )

  it("Ctrl-C at the prompt clears the line, and says how to end the chat", { timeout: slow }, async () => {
    chat.press("never sent\u0003")
    await chat.until(/Ctrl-D or \/quit ends the chat\./)
    await chat.until(/You > /)
    assert.notInclude(await chat.type("/events"), "never sent")
  })

  it("/quit ends the chat", { timeout: slow }, async () => {
    chat.press("/quit\r")
    assert.strictEqual(await chat.exitCode, 0)
  })
})
