/**
 * An agent service that is terminated, killed and started twice: every accepted event is answered.
 *
 *     npm run host -w examples
 */
import { spawn } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const folder = mkdtempSync(join(tmpdir(), "outlast-host-"))

/** Receives the answers, unless it is down. */
const answers = new Set<string>()
let isDown = true
let arrived = () => {}
const webhook = createServer((request, response) => {
  if (!isDown) answers.add(String(request.headers["event-id"]))
  response.writeHead(isDown ? 503 : 200).end()
  arrived()
}).listen(0, "127.0.0.1")
await once(webhook, "listening")
const address = webhook.address()
const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : address}`

interface Service {
  readonly child: ChildProcess
  /** The port; `undefined` if the service ended instead. */
  readonly port: Promise<number | undefined>
  readonly exit: Promise<number | NodeJS.Signals | null>
  /** Resolves when a line has the text, or the service ended. */
  readonly line: (text: string) => Promise<string | undefined>
}

const start = (): Service => {
  const args = [...process.execArgv, join(import.meta.dirname, "host/service.ts"), folder, url]
  const child = spawn(process.execPath, [...args, '{"wait":0,"thinking":400}'], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const lines: Array<string> = []
  let written = () => {}
  const exit = new Promise<number | NodeJS.Signals | null>((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? signal))
  )
  const port = new Promise<number | undefined>((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      lines.push(line)
      written()
      if (line.startsWith("listening ")) resolve(Number(line.split(" ")[1]))
    })
    void exit.then(() => resolve(undefined))
  })
  const line = async (text: string) => {
    for (;;) {
      const found = lines.find((line) => line.includes(text))
      if (found !== undefined || child.exitCode !== null) return found
      await Promise.race([exit, new Promise<void>((resolve) => (written = resolve))])
    }
  }
  return { child, port, exit, line }
}

const send = async (port: number | undefined, from: number, to: number) => {
  let accepted = 0
  for (let n = from; n <= to; n++) {
    const body = JSON.stringify({ id: `event-${n}`, text: "How many pieces are in stock?" })
    const { status } = await fetch(`http://127.0.0.1:${port}/events`, { method: "POST", body })
    if (status === 202) accepted++
  }
  return accepted
}

const first = start()
console.log(`${await send(await first.port, 1, 20)} events are accepted. The webhook is down.`)
await first.line("has saved 3 messages")
first.child.kill("SIGTERM")
console.log(`SIGTERM in the middle of the runs: exit code ${await first.exit}`)

const pair = [start(), start()]
const ports = await Promise.all(pair.map(({ port }) => port))
const running = pair.find((_, i) => ports[i] !== undefined)
const refused = pair.find((_, i) => ports[i] === undefined)
console.log(`Two starts at once: one runs, the other ends with exit code ${await refused?.exit}`)

await send(
  ports.find((port) => port !== undefined),
  21,
  30
)
const continued = await running?.line("continues with")
running?.child.kill("SIGKILL")
console.log(`Ten more events, and then ${await running?.exit}`)
console.log(`Runs go on where they were: ${continued === undefined ? "no" : "yes"}`)

isDown = false
const last = start()
await last.port
while (answers.size < 30) await new Promise<void>((resolve) => (arrived = resolve))
console.log(`Answered: ${answers.size} of 30`)
last.child.kill("SIGTERM")
console.log(`The end: exit code ${await last.exit}`)

webhook.close()
rmSync(folder, { recursive: true, force: true })
