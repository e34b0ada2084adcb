/**
 * The time from nothing to the first answered call of the gateway, as a user has it: `npm install`, then `npx outlast gateway`.
 * Run by `npm run release:check`. Needs built packages.
 *
 * The packages are packed as npm would publish them. npm's cache is warm: the same installation was made before, in another
 * folder. The vendor is a server on this machine.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { installInto, packInto } from "./pack.ts"

/** Seconds that both commands and the call may take. */
const within = 30

const listening = async (server: ReturnType<typeof createServer>): Promise<number> => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  // The type of a server that listens on a port.
  return (server.address() as AddressInfo).port
}

const free = createServer()
const port = await listening(free)
free.close()

const message = { role: "assistant", content: "Hello." }
const vendor = createServer((_, response) => {
  response.writeHead(200, { "content-type": "application/json" })
  response.end(JSON.stringify({ id: "1", choices: [{ index: 0, message, finish_reason: "stop" }] }))
})

const folder = mkdtempSync(join(tmpdir(), "outlast-first-call-"))
try {
  const tarballs = packInto(join(folder, "packed")).map(({ tarball }) => tarball)
  installInto(join(folder, "warm"), tarballs)
  const target = {
    provider: "compatible",
    name: "local",
    baseUrl: `http://127.0.0.1:${await listening(vendor)}/v1`,
    model: "m",
    keys: ["LOCAL_KEY"]
  }
  const routes = join(folder, "routes.json")
  writeFileSync(routes, JSON.stringify({ routes: { smart: { targets: [target] } } }))

  const begun = performance.now()
  const seconds = () => (performance.now() - begun) / 1_000
  const home = join(folder, "app")
  installInto(home, tarballs)
  const installed = seconds()
  const args = ["--no-install", "outlast", "gateway", "--port", String(port), "--config", routes]
  const gateway = spawn("npx", args, {
    cwd: home,
    env: { ...process.env, LOCAL_KEY: "sk-test-0123456789" },
    stdio: ["ignore", "pipe", "inherit"],
    // A group of its own: `npx` runs the gateway in another process.
    detached: true
  })
  try {
    await once(gateway.stdout, "data", { signal: AbortSignal.timeout(60_000) })
    const ready = seconds()
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "smart", messages: [{ role: "user", content: "Hello" }] })
    })
    const text = await response.text()
    if (!text.includes(message.content)) throw new Error(`HTTP ${response.status}: ${text}`)
    const total = seconds()
    console.log(
      `The first call is answered after ${total.toFixed(1)} s: installed after ${installed.toFixed(1)} s, listening after ${ready.toFixed(1)} s.`
    )
    if (total > within) {
      console.error(`That is more than ${within} s.`)
      process.exitCode = 1
    }
  } finally {
    if (gateway.pid !== undefined && gateway.exitCode === null) {
      process.kill(-gateway.pid)
      await once(gateway, "exit")
    }
  }
} finally {
  vendor.close()
  vendor.closeAllConnections()
  rmSync(folder, { recursive: true, force: true })
}
