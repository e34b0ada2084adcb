/**
 * Watches a browser tab over the DevTools protocol, and notices when the tab closes or the browser exits.
 *
 *     npm run browser-session -w examples
 *
 * A small server stands in for the browser's DevTools endpoint, so that the example runs everywhere. The probe also
 * works with a browser started with `--remote-debugging-port=9222`.
 */
import { once } from "node:events"
import { createServer } from "node:http"
import { Console, Effect, Layer, Schema } from "effect"
import { ConnectionMonitor, ResilienceEvents } from "@outlast/resilience"

const { ProbeError } = ConnectionMonitor
const Targets = Schema.Array(Schema.Struct({ id: Schema.String, type: Schema.String }))

/**
 * Returns "dead" when the browser no longer lists the tab, or no longer listens. Anything else, such as a status 500 or
 * an answer that is not a list, proves nothing.
 */
const tabProbe = (endpoint: string, tab: string): ConnectionMonitor.Probe =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(`${endpoint}/json/list`, { signal })
      if (!response.ok) throw new ProbeError({ reason: `status ${response.status}` })
      return await response.json()
    },
    catch: (error) => error
  }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Targets)),
    Effect.map((targets) => (targets.some(({ id }) => id === tab) ? ("alive" as const) : ("dead" as const))),
    Effect.catch((error) => {
      if (isRefused(error)) return Effect.succeed("dead" as const)
      return Effect.fail(error instanceof ProbeError ? error : new ProbeError({ reason: "no list of tabs" }))
    })
  )

const isRefused = (error: unknown): boolean =>
  error instanceof Error &&
  error.cause instanceof Error &&
  "code" in error.cause &&
  error.cause.code === "ECONNREFUSED"

/** The fake browser: its tabs, and its health. */
const tabs = new Set(["A1", "B2"])
let status = 200
const browser = createServer((request, response) => {
  const list = [...tabs].map((id) => ({ id, type: "page", url: "about:blank" }))
  response.writeHead(status, { "content-type": "application/json", connection: "close" })
  response.end(request.url === "/json/list" && status === 200 ? JSON.stringify(list) : "{}")
})

const main = Effect.gen(function* () {
  browser.listen(0, "127.0.0.1")
  yield* Effect.promise(() => once(browser, "listening"))
  const address = browser.address()
  const endpoint = `http://127.0.0.1:${typeof address === "object" ? address?.port : address}`

  const monitor = yield* ConnectionMonitor.ConnectionMonitor
  for (const tab of tabs) yield* monitor.register(`tab ${tab}`, { probe: tabProbe(endpoint, tab) })
  const click = (tab: string) =>
    monitor.ask(`tab ${tab}`).pipe(
      Effect.andThen(monitor.guard(`tab ${tab}`)(Console.log(`clicked in ${tab}`))),
      Effect.catch((error) => Console.log(error.message))
    )

  yield* click("A1")
  status = 500
  yield* click("A1")
  status = 200
  tabs.delete("A1")
  yield* click("A1")
  yield* click("B2")
  const closed = once(browser, "close")
  browser.close()
  yield* Effect.promise(() => closed)
  yield* click("B2")
})

const Events = ResilienceEvents.layerHandler((event) => Console.log(`  ${event._tag}`))

await Effect.runPromise(
  main.pipe(Effect.scoped, Effect.provide(Layer.provideMerge(ConnectionMonitor.layer(), Events)))
)
