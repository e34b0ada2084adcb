/**
 * Two processes and a broker that is stopped and started: no order is lost, and the stream has them in order.
 *
 *     npm run delivery -w examples
 *
 * Needs nats-server on the PATH; without it, it says so and ends.
 */
import { execFileSync, fork, spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { createConnection, createServer } from "node:net"
import { once } from "node:events"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { jetstreamManager } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"

try {
  execFileSync("nats-server", ["--version"], { stdio: "ignore" })
} catch {
  console.log("This example needs nats-server on the PATH.")
  process.exit(process.env["OUTLAST_REQUIRE_SERVICES"] === "1" ? 1 : 0)
}

const folder = mkdtempSync(join(tmpdir(), "outlast-example-"))
const port = await new Promise<number>((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
  })
})
const servers = `127.0.0.1:${port}`

const startBroker = async () => {
  const args = ["-js", "-sd", join(folder, "js"), "-a", "127.0.0.1", "-p", String(port)]
  const child = spawn("nats-server", args, { stdio: "ignore" })
  for (let isUp = false; !isUp;) {
    const socket = createConnection({ port, host: "127.0.0.1" })
    isUp = await new Promise((resolve) => {
      socket.once("connect", () => resolve(true))
      socket.once("error", () => resolve(false))
    })
    socket.destroy()
  }
  return async () => {
    const gone = once(child, "exit")
    child.kill("SIGKILL")
    await gone
  }
}

let stopBroker = await startBroker()
const nc = await connect({ servers })
await (await jetstreamManager(nc)).streams.add({ name: "ORDERS", subjects: ["orders.>"] })
await nc.close()

const here = (name: string) => join(import.meta.dirname, "delivery", name)
const shop = fork(here("publisher.ts"), [servers, join(folder, "outbox.db")])
const billing = fork(here("consumer.ts"), [servers])

const billed: Array<string> = []
let told = () => {}
billing.on("message", (id) => {
  // A broker that is killed may have lost an acknowledgement: it then delivers that event again.
  if (!billed.includes(String(id))) billed.push(String(id))
  told()
})

const publish = async (number: number) => {
  shop.send(number)
  const [answer]: ReadonlyArray<unknown> = await once(shop, "message")
  const { safe } = answer as { readonly safe: string } // What publisher.ts sends.
  return safe
}
const has = async (count: number) => {
  while (billed.length < count) await new Promise<void>((resolve) => (told = resolve))
}

await once(shop, "message")
// The shop's connection is made in the background: until then events are stored.
let first = 0
while ((await publish(++first)) !== "broker") await new Promise((resolve) => setTimeout(resolve, 50))
console.log("The broker is up: an order is safe at the broker.")
await has(first)

await stopBroker()
const accepted = [await publish(first + 1), await publish(first + 2), await publish(first + 3)]
console.log(`The broker is down: three orders are safe in the ${[...new Set(accepted)].join(", ")}.`)

stopBroker = await startBroker()
await has(first + 3)
console.log("The broker is up again: billing has them.")
await publish(first + 4)
await has(first + 4)

const numbers = Array.from({ length: first + 4 }, (_, i) => i + 1)
const missing = numbers.filter((number) => !billed.includes(`order-${number}`))
const stream = (await jetstreamManager(await connect({ servers }))).streams
const { state } = await stream.info("ORDERS")
const stored = new Set<number>()
for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
  const message = await stream.getMessage("ORDERS", { seq })
  stored.add(message?.json<{ readonly number: number }>().number ?? 0)
}
// A delivery that was lost with its connection comes again, behind later ones: so the order is that of the stream.
console.log(`In order: ${[...stored].join() === numbers.join() ? "yes" : [...stored].join()}`)
console.log(`Missing: ${missing.length === 0 ? "none" : missing.join()}`)

shop.disconnect()
billing.disconnect()
await stopBroker()
rmSync(folder, { recursive: true, force: true })
process.exit(0)
