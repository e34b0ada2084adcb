/**
 * What a gateway costs: Outlast's, beside proxies in a few lines of Node, and beside the gateways of others. Vendor, gateways
 * and callers are processes of their own.
 *
 * - CPU time of the gateway's process for one call, 64 at once: streams of 123 events in 0.6 s, and whole answers of 2.7 KB.
 * - Time from a request to the first word of its stream.
 * - Resident memory of the built command under 1,000 open streams, each with a request of 20 KB. Needs `npm run build`.
 *
 * The first contender of each table runs twice: the distance is noise. Ratios are taken round by round.
 */
import type { ChildProcess } from "node:child_process"
import { execFileSync, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, writeFileSync } from "node:fs"
import { Agent, createServer, request as ask } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { heldAfter } from "./gatewayAnswers.ts"
import type { Usage } from "./gatewayMeter.ts"
import type { Peer } from "./gatewayPeers.ts"
import * as Peers from "./gatewayPeers.ts"
import type { Figure, Report } from "./measure.ts"
import { compared, median } from "./measure.ts"

/** What is asked for, and the highest ratio to the proxy over `fetch`. */
const kinds = {
  streams: {
    title: "Streams of 123 events, one by one",
    asked: { streams: true },
    count: 192,
    rounds: 7,
    target: 2
  },
  fast: {
    title: "Streams of 123 events, eight at once",
    asked: { streams: true, model: "fast" },
    count: 1_600,
    rounds: 5,
    target: 2
  },
  whole: {
    title: "Whole answers of 2.7 KB",
    asked: { streams: false },
    count: 2_560,
    rounds: 7,
    target: 1.3
  }
} as const
/** Milliseconds by which the first word may be later than with the proxy over `fetch`. */
const laterAtMost = 3
/** Megabytes. */
const memoryAtMost = 300
const openStreams = 1_000

/** Ended with the bench. */
const programs: Array<ChildProcess> = []
const agent = new Agent({ keepAlive: true, maxSockets: Infinity })

type Contender = Omit<Peer, "program"> & { readonly name: string; readonly program?: ChildProcess }

const started = async (role: string, ...args: ReadonlyArray<string>): Promise<Peer> => {
  const program = fork(new URL("./gatewayPrograms.ts", import.meta.url), [role, ...args], {
    execArgv: [...process.execArgv, "--import", new URL("./gatewayMeter.ts", import.meta.url).href],
    env: { ...process.env, BENCH_KEY: "secret" }
  })
  programs.push(program)
  const [port] = await once(program, "message")
  return { program, url: `http://127.0.0.1:${port}`, model: "m", headers: {} }
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  // The type of a server that listens on a port.
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

const usageOf = async (program: ChildProcess): Promise<Usage> => {
  program.send("usage")
  const [usage] = await once(program, "message")
  return usage
}

interface Asked {
  readonly streams: boolean
  readonly model?: string
  readonly prompt?: string
  /** Told of each piece of the answer. Default: the answer is read to its end. */
  readonly onData?: (all: string) => void
}

/** Milliseconds to the first word. Rejects for an answer that is not complete. */
const call = (
  { headers, model: own, url }: Contender,
  { model = own, onData, prompt = "What is the plan?", streams }: Asked
): Promise<number> =>
  new Promise((resolve, reject) => {
    const body = JSON.stringify({ model, stream: streams, messages: [{ role: "user", content: prompt }] })
    const start = performance.now()
    const options = {
      agent,
      method: "POST",
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        authorization: "Bearer secret",
        ...headers
      }
    }
    const sent = ask(`${url}/v1/chat/completions`, options, (response) => {
      let text = ""
      let first = NaN
      response.setEncoding("utf8")
      response.on("data", (chunk: string) => {
        text += chunk
        if (Number.isNaN(first) && text.includes("word0")) first = performance.now() - start
        onData?.(text)
      })
      response.on("error", reject)
      response.on("end", () => {
        if (response.statusCode === 200 && text.includes(streams ? "[DONE]" : "The plan is")) resolve(first)
        else reject(new Error(`${url}: HTTP ${response.statusCode} ${text.slice(0, 300)}`))
      })
    })
    sent.on("error", reject)
    sent.end(body)
  })

/** Calls with so many at once. Returns the times to their first words. */
const calls = async (
  contender: Contender,
  { atOnce, count }: { readonly atOnce: number; readonly count: number },
  asked: Asked
): Promise<ReadonlyArray<number>> => {
  const firsts: Array<number> = []
  let left = count
  const worker = async () => {
    while (left-- > 0) firsts.push(await call(contender, asked))
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return firsts
}

/** Measures the contenders round by round in turn. */
const measured = async (
  contenders: ReadonlyArray<Contender>,
  rounds: number,
  round: (contender: Contender) => Promise<number>
): Promise<ReadonlyArray<Figure>> => {
  const all = contenders.map((): Array<number> => [])
  for (let n = -2; n < rounds; n++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      // Each round begins with another contender.
      const index = (turn + n + 2) % contenders.length
      const contender = contenders[index]
      if (contender === undefined) continue
      const value = await round(contender)
      if (n >= 0) all[index]?.push(value)
    }
  }
  return contenders.map(({ name }, i) => {
    const own = all[i] ?? []
    const ratio = median(own.map((value, n) => value / (all[0]?.[n] ?? NaN)))
    return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio, rounds: own }
  })
}

const again = (contenders: ReadonlyArray<Contender>): ReadonlyArray<Contender> =>
  contenders[0] === undefined
    ? []
    : [...contenders, { ...contenders[0], name: `${contenders[0].name} again (noise)` }]

const cpu = async (
  report: Report,
  contenders: ReadonlyArray<Contender>,
  kind: keyof typeof kinds
): Promise<ReadonlyArray<Figure>> => {
  const { asked, count, rounds, target, title } = kinds[kind]
  const size = { atOnce: 64, count }
  const figures = await measured(again(contenders), rounds, async (contender) => {
    const { program } = contender
    if (program === undefined) return NaN
    const before = await usageOf(program)
    await calls(contender, size, asked)
    return ((await usageOf(program)).cpu - before.cpu) / size.count
  })
  report.table(`${title}, 64 at once, CPU, µs per call`, figures)
  const own = figures.find(({ name }) => name === "Outlast")
  if (own !== undefined)
    report.say(
      `  Outlast ${own.ratio.toFixed(2)} (at most ${target.toFixed(2)}: ${verdict(own.ratio <= target)})`
    )
  return figures
}

const verdict = (isMet: boolean): string => (isMet ? "met" : "missed")

const firstWords = async (report: Report, contenders: ReadonlyArray<Contender>): Promise<void> => {
  for (const atOnce of [1, 8]) {
    const figures = await measured(again(contenders), 9, async (contender) => {
      const firsts = await calls(contender, { atOnce, count: 24 }, { streams: true, model: "short" })
      return 1_000 * median(firsts)
    })
    report.table(`First word of a stream, ${atOnce} at once, p50, µs`, figures)
    const of = (name: string) => figures.find((figure) => figure.name === name)?.median ?? NaN
    const later = (of("Outlast") - of("fetch proxy")) / 1_000
    report.say(
      `  Outlast ${later.toFixed(2)} ms later than the fetch proxy (at most ${laterAtMost} ms: ${verdict(later <= laterAtMost)})`
    )
  }
}

/** The command `outlast gateway` of the built packages, over the vendor. */
const command = async (vendor: string): Promise<Contender & Pick<Peer, "program">> => {
  const port = await freePort()
  const target = (name: string) => ({
    provider: "compatible",
    name,
    baseUrl: `${vendor}/v1`,
    model: "held",
    keys: ["BENCH_KEY"]
  })
  const routes = join(mkdtempSync(join(tmpdir(), "bench-gateway-")), "routes.json")
  writeFileSync(routes, JSON.stringify({ routes: { held: { targets: [target("a"), target("b")] } } }))
  const file = fileURLToPath(new URL("../packages/cli/dist/main.js", import.meta.url))
  const program = spawn(process.execPath, [file, "gateway", "--port", String(port), "--config", routes], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, BENCH_KEY: "secret" }
  })
  programs.push(program)
  await once(program.stdout, "data")
  return { name: "outlast gateway", program, url: `http://127.0.0.1:${port}`, model: "held", headers: {} }
}

/** Resident megabytes of a process. */
const residentOf = ({ pid }: ChildProcess): number =>
  Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) / 1_000

/** Opens streams that do not end, reads what comes of each, and says what the process holds. */
const memory = async (report: Report, contender: Contender & Pick<Peer, "program">): Promise<void> => {
  const before = residentOf(contender.program)
  const prompt = "Is this the plan? ".repeat(1_140)
  const opened = Array.from(
    { length: openStreams },
    () =>
      new Promise<void>((resolve) => {
        const onData = (all: string) => {
          if (all.split("data: ").length > heldAfter) resolve()
        }
        // The streams end with the process.
        call(contender, { streams: true, model: "held", prompt, onData }).catch(() => {})
      })
  )
  await Promise.all(opened)
  await new Promise((resume) => setTimeout(resume, 3_000))
  const after = residentOf(contender.program)
  report.say(
    `\nMemory of outlast gateway: ${before.toFixed(0)} MB at first, ${after.toFixed(0)} MB under ${openStreams} streams (at most ${memoryAtMost}: ${verdict(after <= memoryAtMost)})`
  )
}

export const gateway = async (report: Report): Promise<void> => {
  report.say(`Gateways over HTTP, Node ${process.version}`)
  try {
    const vendor = await started("vendor")
    const own = async (name: string, role: string) => ({ name, ...(await started(role, vendor.url)) })
    const proxies = [await own("fetch proxy", "fetch"), await own("http.request proxy", "http")]
    const ours = await own("Outlast", "outlast")
    const [proxy] = proxies
    if (proxy === undefined) return
    await cpu(report, [...proxies, ours], "streams")
    await cpu(report, [...proxies, ours], "fast")
    await cpu(report, [...proxies, ours], "whole")
    const others = [{ name: "Portkey", ...(await Peers.portkey(vendor.url, await freePort())) }]
    if (Peers.hasNineRouter)
      others.push({ name: "9router", ...(await Peers.nineRouter(vendor.url, await freePort())) })
    else report.say("\n9router is not installed (bench/gatewayPeers.ts says how).")
    programs.push(...others.map(({ program }) => program))
    report.say("\nBeside gateways of others")
    const figures = await cpu(report, [ours, ...others], "whole")
    const rivals = figures.filter(({ name }) => others.some((other) => other.name === name))
    const [first] = figures
    if (first !== undefined) {
      const best = Math.min(...rivals.map((rival) => compared(rival, first).ratio))
      report.say(
        `  the best of the others takes ${best.toFixed(2)} times as much (at least 2: ${verdict(best >= 2)})`
      )
    }
    const direct = { name: "the vendor itself", url: vendor.url, model: "m", headers: {} }
    await firstWords(report, [direct, ...proxies, ours])
    await memory(report, await command(vendor.url))
  } finally {
    for (const program of programs) program.kill()
    agent.destroy()
  }
}
