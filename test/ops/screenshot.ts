/**
 * Writes the screenshot of the status page for the documents: `npm run screenshot`.
 *
 * A provider is overloaded, a key is rate limited, and calls recover at another provider.
 */
import { join } from "node:path"
import { Effect, Fiber } from "effect"
import { Ops } from "@outlast/node/ops"
import { ResilienceEvents } from "@outlast/resilience"
import type { CircuitEvent } from "@outlast/resilience"
import * as Chromium from "./Chromium.ts"
import * as World from "./World.ts"

const file = join(import.meta.dirname, "..", "..", "docs", "status-page.png")

const main = Effect.gen(function* () {
  const ops = yield* Ops.Ops
  const browser = yield* Chromium.launch
  const page = yield* Effect.promise(() =>
    browser.newPage({ viewport: { width: 1_120, height: 700 }, colorScheme: "light" })
  )
  yield* Effect.promise(() => page.goto(`http://127.0.0.1:${ops.page}/`))
  yield* World.call
  yield* Effect.all([World.call, World.call])
  yield* ResilienceEvents.publishNow<CircuitEvent.CircuitTransition>({
    _tag: "CircuitTransition",
    circuit: "search",
    from: "closed",
    to: "open",
    generation: 1,
    openFor: 30_000
  })
  const slow = yield* Effect.forkChild(World.call)
  yield* Effect.promise(async () => {
    await page.locator("#running summary").first().waitFor()
    await page.locator("#recent summary").last().click()
    await page.locator("#running summary").first().click()
    await page.evaluate("scrollTo(0, 0)")
    await page.screenshot({ path: file, fullPage: true })
  })
  yield* Fiber.interrupt(slow)
}).pipe(Effect.scoped, Effect.provide(World.layer({ page: { port: 0 } }, World.slow)))

await Effect.runPromise(main)
console.log(`written: ${file}`)
