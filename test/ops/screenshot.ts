/**
 * Writes the screenshots of the status page for the documents: `npm run screenshot`.
 *
 * The first shows a chain of which no target can answer, the second calls that recover at another provider.
 */
import { join } from "node:path"
import { Effect } from "effect"
import { Ops } from "@outlast/node/ops"
import * as Chromium from "./Chromium.ts"
import { situations } from "./Situations.ts"
import * as World from "./World.ts"

const pictures = [
  { situation: "all out", file: "status-page.png", colorScheme: "light" },
  { situation: "dead key", file: "status-page-dark.png", colorScheme: "dark" }
] as const

const main = Effect.gen(function* () {
  const browser = yield* Chromium.launch
  for (const { colorScheme, file, situation } of pictures) {
    const found = situations.find(({ name }) => name === situation)
    if (found === undefined) continue
    const path = join(import.meta.dirname, "..", "..", "docs", file)
    yield* Effect.gen(function* () {
      yield* found.play
      const { page: port } = yield* Ops.Ops
      yield* Effect.promise(async () => {
        const page = await browser.newPage({ viewport: { width: 1_120, height: 700 }, colorScheme })
        await page.goto(`http://127.0.0.1:${port}/`)
        await page.locator("#recent summary").last().click()
        await page.evaluate("scrollTo(0, 0)")
        await page.screenshot({ path, fullPage: true })
      })
    }).pipe(Effect.scoped, Effect.provide(World.operated(found.plan)))
    console.log(`written: ${path}`)
  }
}).pipe(Effect.scoped)

await Effect.runPromise(main)
