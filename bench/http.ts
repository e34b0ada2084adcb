/**
 * Calls over HTTP, one at once and 64 at once, to a provider in a process of its own: effect/ai and the AI SDK with and
 * without Outlast, beside plain `fetch`; and an Outlast program as a gateway, beside Portkey's.
 *
 * Outlast sends by the `fetch` of Node, which is the default, and by `UndiciFetch`, which gateways use.
 *
 * Figures are times of the wall clock. With many calls at once, the time of a call is that of all divided by their number:
 * the inverse of calls per second. The first contender of each table runs twice: the distance is noise.
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { Direct, Failover } from "@outlast/agent"
import { toAiSdk } from "@outlast/ai-sdk"
import { OpenAiCompatible } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"
import { generateText } from "ai"
import type { LanguageModel as AiSdkModel, ModelMessage } from "ai"
import { Effect, ManagedRuntime } from "effect"
import { LanguageModel } from "effect/ai"
import type { ChildProcess } from "node:child_process"
import { fork, spawn } from "node:child_process"
import { once } from "node:events"
import { Agent, createServer, request as ask } from "node:http"
import type { AddressInfo } from "node:net"
import type { Figure, Report } from "./measure.ts"
import { median } from "./measure.ts"

const rounds = 9
/** Rounds that only warm up. */
const warmUp = 2
const concurrencies = [
  { atOnce: 1, calls: 300 },
  { atOnce: 64, calls: 2_000 }
] as const

/** Highest ratio of the second contender's time per call to that of the first one, 64 at once. */
const targets = { direct: 1 / 0.78, aiSdk: 1 / 0.6, healthy: 1 / 1.05, dead: 1 / 1.8 }

const prompt = "What is the plan?"
const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: prompt }] })
const headers = { "content-type": "application/json", authorization: "Bearer secret" }

const conversation = Array.from({ length: 201 }, (_, i): ModelMessage => {
  const content =
    i % 2 === 0 ? `Look at file ${i}.` : `File ${i} says ${"this and that, ".repeat(30)}and no more.`
  return i % 2 === 0 ? { role: "user", content } : { role: "assistant", content }
})

interface Caller {
  readonly name: string
  readonly call: () => Promise<unknown>
}

interface Round {
  readonly perCall: number
  readonly p99: number
}

/** Microseconds. */
const round = async ({ call }: Caller, calls: number, atOnce: number): Promise<Round> => {
  const took: Array<number> = []
  let left = calls
  const worker = async () => {
    while (left-- > 0) {
      const start = performance.now()
      await call()
      took.push(performance.now() - start)
    }
  }
  const start = performance.now()
  await Promise.all(Array.from({ length: atOnce }, worker))
  const elapsed = performance.now() - start
  const sorted = took.toSorted((a, b) => a - b)
  return {
    perCall: (1_000 * elapsed) / calls,
    p99: 1_000 * (sorted[Math.floor(0.99 * sorted.length)] ?? NaN)
  }
}

const figuresOf = (
  callers: ReadonlyArray<Caller>,
  all: ReadonlyArray<ReadonlyArray<Round>>,
  of: keyof Round
): ReadonlyArray<Figure> => {
  const base = all[0] ?? []
  return callers.map(({ name }, i) => {
    const own = all[i] ?? []
    const values = own.map((round) => round[of])
    const ratio = median(values.map((value, round) => value / (base[round]?.[of] ?? NaN)))
    return { name, median: median(values), min: Math.min(...values), max: Math.max(...values), ratio }
  })
}

/** Measures the callers round by round in turn. The first one comes again as the control. */
const compare = async (
  report: Report,
  title: string,
  given: readonly [Caller, ...Array<Caller>],
  target: number
): Promise<void> => {
  const callers = [...given, { ...given[0], name: `${given[0].name} again (noise)` }]
  for (const { atOnce, calls } of concurrencies) {
    const all = callers.map((): Array<Round> => [])
    for (let i = -warmUp; i < rounds; i++) {
      for (let turn = 0; turn < callers.length; turn++) {
        // Each round begins with another caller.
        const index = (turn + i + warmUp) % callers.length
        const measured = await round(callers[index] ?? given[0], calls, atOnce)
        if (i >= 0) all[index]?.push(measured)
      }
    }
    const figures = figuresOf(callers, all, "perCall")
    report.table(`${title}, ${atOnce} at once, µs per call`, figures)
    // The second caller is Outlast's.
    const ratio = figures[1]?.ratio ?? NaN
    const verdict = ratio <= target ? "met" : "missed"
    if (atOnce > 1) report.say(`  ${ratio.toFixed(2)} (at most ${target.toFixed(2)}: ${verdict})`)
    report.table(`${title}, ${atOnce} at once, 99th percentile, µs`, figuresOf(callers, all, "p99"))
  }
}

// -----------------------------------------------------------------------------
// Processes
// -----------------------------------------------------------------------------

const programs: Array<ChildProcess> = []

/** Starts a program of `httpPrograms.ts`, and returns its URL. */
const started = async (...args: ReadonlyArray<string>): Promise<string> => {
  const program = fork(new URL("./httpPrograms.ts", import.meta.url), args, {
    env: { ...process.env, BENCH_KEY: "secret" }
  })
  programs.push(program)
  const [port] = await once(program, "message")
  return `http://127.0.0.1:${port}`
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  // The type of a server that listens on a port.
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, "close")
  return port
}

const portkey = async (): Promise<string> => {
  const port = await freePort()
  const file = new URL("./node_modules/@portkey-ai/gateway/build/start-server.js", import.meta.url)
  const program = spawn(process.execPath, [file.pathname, `--port=${port}`, "--headless"], {
    stdio: "ignore"
  })
  programs.push(program)
  const url = `http://127.0.0.1:${port}`
  for (let i = 0; i < 200; i++) {
    const isUp = await fetch(url).then(
      () => true,
      () => false
    )
    if (isUp) return url
    await new Promise((resume) => setTimeout(resume, 50))
  }
  throw new Error("The Portkey gateway did not start.")
}

const agent = new Agent({ keepAlive: true, maxSockets: 128 })

/** Posts the request with as little work as possible: the gateways share the machine with this process. */
const post =
  (url: string, more: Readonly<Record<string, string>> = {}) =>
  () =>
    new Promise<void>((resolve, reject) => {
      const sent = ask(
        `${url}/v1/chat/completions`,
        {
          agent,
          method: "POST",
          headers: { ...headers, ...more, "content-length": Buffer.byteLength(body) }
        },
        (response) => {
          let text = ""
          response.setEncoding("utf8")
          response.on("data", (chunk: string) => (text += chunk))
          response.on("end", () =>
            text.includes("The plan is")
              ? resolve()
              : reject(new Error(`HTTP ${response.statusCode}: ${text}`))
          )
        }
      )
      sent.on("error", reject)
      sent.end(body)
    })

// -----------------------------------------------------------------------------
// Tables
// -----------------------------------------------------------------------------

const libraries = async (report: Report, provider: string): Promise<void> => {
  const baseUrl = `${provider}/a/v1`
  const sending = UndiciFetch.make()
  const target = (name: string, fetch?: typeof globalThis.fetch) =>
    OpenAiCompatible.model({ name, baseUrl, model: "m", keys: ["BENCH_KEY"], fetch })
  const direct = ManagedRuntime.make(Direct.layer(target("a")))
  const one = ManagedRuntime.make(Failover.layer([target("a")]))
  const three = ManagedRuntime.make(Failover.layer([target("a"), target("b"), target("c")]))
  const directUndici = ManagedRuntime.make(Direct.layer(target("d", sending)))
  const oneUndici = ManagedRuntime.make(Failover.layer([target("d", sending)]))
  const call = Effect.map(LanguageModel.generateText({ prompt }), ({ text }) => text)
  await compare(
    report,
    "effect/ai over HTTP",
    [
      { name: "Direct", call: () => direct.runPromise(call) },
      { name: "Failover, 1 target", call: () => one.runPromise(call) },
      { name: "Failover, 3 targets", call: () => three.runPromise(call) },
      { name: "Direct, UndiciFetch", call: () => directUndici.runPromise(call) },
      { name: "Failover, UndiciFetch", call: () => oneUndici.runPromise(call) },
      {
        name: "plain fetch",
        call: async () => {
          const response = await fetch(`${baseUrl}/chat/completions`, { method: "POST", headers, body })
          await response.json()
        }
      }
    ],
    targets.direct
  )
  const client = { name: "a", baseURL: baseUrl, apiKey: "secret" }
  const raw = createOpenAICompatible(client)("m")
  const rawUndici = createOpenAICompatible({ ...client, fetch: sending })("m")
  const caller = (name: string, model: AiSdkModel): Caller => ({
    name,
    call: () => generateText({ model, prompt, maxRetries: 0 })
  })
  /** The model goes on with a conversation, as an agent does. */
  const goingOn = (name: string, model: AiSdkModel): Caller => ({
    name,
    call: () => generateText({ model, messages: conversation, maxRetries: 0 })
  })
  await compare(
    report,
    "AI SDK over HTTP",
    [
      caller("AI SDK", raw),
      caller("toAiSdk(Failover)", toAiSdk(one)),
      caller("AI SDK, UndiciFetch", rawUndici),
      caller("toAiSdk(Failover), UndiciFetch", toAiSdk(oneUndici))
    ],
    targets.aiSdk
  )
  await compare(
    report,
    `AI SDK over HTTP, ${conversation.length} messages`,
    [goingOn("AI SDK", raw), goingOn("toAiSdk(Failover)", toAiSdk(one))],
    targets.aiSdk
  )
  for (const runtime of [direct, one, three, directUndici, oneUndici]) await runtime.dispose()
}

const gateways = async (report: Report, provider: string): Promise<void> => {
  const theirs = await portkey()
  const ours = await started("gateway", provider)
  for (const [kind, first] of [
    ["healthy", "a"],
    ["dead", "dead"]
  ] as const) {
    const config = {
      strategy: { mode: "fallback" },
      targets: [first, "b"].map((name) => ({
        provider: "openai",
        api_key: "secret",
        custom_host: `${provider}/${name}/v1`
      }))
    }
    await compare(
      report,
      `Gateway, ${kind === "dead" ? "the first target fails" : "both targets answer"}`,
      [
        { name: "Portkey", call: post(theirs, { "x-portkey-config": JSON.stringify(config) }) },
        { name: "Outlast", call: post(`${ours}/${kind}`) }
      ],
      targets[kind]
    )
  }
}

export const http = async (report: Report): Promise<void> => {
  report.say(`Calls over HTTP, ${rounds} rounds, Node ${process.version}`)
  process.env["BENCH_KEY"] = "secret"
  try {
    const provider = await started("provider")
    await libraries(report, provider)
    await gateways(report, provider)
  } finally {
    for (const program of programs) program.kill()
    agent.destroy()
  }
}
