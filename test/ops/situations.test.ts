/** The status page in ten situations, as a browser shows it: its first line, and that everyone can read it. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { Ops } from "@outlast/node/ops"
import type { Browser } from "playwright-core"
import * as Chromium from "./Chromium.ts"
import * as PageChecks from "./PageChecks.ts"
import { situations } from "./Situations.ts"
import * as World from "./World.ts"

const scope = Effect.runSync(Scope.make())
let browser: Browser | undefined

/** Colours of the first line, as `rgb(…)`: the border of each level differs from the others. */
const colours = new Map<string, string>()

describe.skipIf(Chromium.isMissing())("the page", () => {
  beforeAll(async () => {
    browser = await Effect.runPromise(Scope.provide(Chromium.launch, scope))
  })
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

  for (const { level, name, plan, play, policy, says } of situations) {
    it.live(
      `says what is wrong, to everyone and on every screen: ${name}`,
      () =>
        Effect.gen(function* () {
          yield* play
          const { page: port } = yield* Ops.Ops
          const running = browser ?? assert.fail("The browser is not running.")
          const page = yield* Effect.acquireRelease(
            Effect.promise(() => running.newPage({ colorScheme: "light" })),
            (page) => Effect.promise(() => page.close())
          )
          const shown = yield* Effect.promise(async () => {
            await page.goto(`http://127.0.0.1:${port}/`)
            const line = page.locator(`#headline.${level}`)
            await line.waitFor()
            return {
              text: (await line.innerText()).replaceAll(/\s+/g, " "),
              title: await page.title(),
              colour: String(
                await page.evaluate("getComputedStyle(document.querySelector('#headline')).borderLeftColor")
              )
            }
          })
          for (const part of says) assert.match(shown.text, part)
          assert.strictEqual(shown.title, { good: "triage", warn: "! triage", bad: "✗ triage" }[level])
          assert.strictEqual(shown.colour, colours.get(level) ?? shown.colour)
          colours.set(level, shown.colour)
          assert.strictEqual(new Set(colours.values()).size, colours.size)
          yield* Effect.promise(async () => {
            // The first lines are said aloud once, without times that tick.
            assert.strictEqual(await page.locator("[role=status] time, [aria-live] time").count(), 0)
            const said = (await page.locator("#said").textContent()) ?? ""
            assert.match(said, /\w\./)
            assert.notMatch(said, /next (try|probe)|since \d/)
            for (const picture of await page.getByRole("img").all()) {
              assert.match((await picture.getAttribute("aria-label")) ?? "", /: (\d|\$|nothing)/)
            }
            await page.locator("#token").fill(World.token)
            await page.keyboard.press("Enter")
            await page.getByText("The actions of operators are on.").waitFor()
            await PageChecks.openAll(page)
            await PageChecks.isAccessible(page)
            await PageChecks.fits(page)
          })
        }).pipe(Effect.scoped, Effect.provide(World.operated(plan, policy))),
      60_000
    )
  }
})
