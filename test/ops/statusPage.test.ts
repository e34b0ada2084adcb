/** The status page in a real browser. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Layer, Redacted, Schema, Scope } from "effect"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import type { Alerts } from "@outlast/resilience"
import { CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import type { Browser, Page } from "playwright-core"
import * as Chromium from "./Chromium.ts"
import * as PageChecks from "./PageChecks.ts"
import * as World from "./World.ts"

const page = { port: 0 } as const
const promise = <A>(run: () => Promise<A>) => Effect.promise(run)

interface Opened {
  readonly page: Page
  /** What the console calls an error. */
  readonly errors: Array<string>
}

/** One browser for all tests. Each has a page, cookies and storage of its own. */
const scope = Effect.runSync(Scope.make())
let browser: Browser | undefined

const open = (
  port: number | undefined,
  viewport = { width: 1_200, height: 900 },
  prepare: (page: Page) => unknown = () => {}
) =>
  Effect.gen(function* () {
    const running = browser ?? assert.fail("The browser is not running.")
    const page = yield* Effect.acquireRelease(
      promise(() => running.newPage({ viewport })),
      (page) => promise(() => page.close())
    )
    page.setDefaultTimeout(20_000)
    const errors: Array<string> = []
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") errors.push(message.text())
    })
    page.on("pageerror", (error) => errors.push(String(error)))
    prepare(page)
    yield* promise(() => page.goto(`http://127.0.0.1:${port}/`))
    yield* shows(page, "#connection", "live")
    return { page, errors } satisfies Opened
  })

/** Waits until an element has the text. */
const shows = (page: Page, selector: string, text: string) =>
  promise(() => page.locator(selector).filter({ hasText: text }).first().waitFor({ state: "attached" }))

describe.skipIf(Chromium.isMissing())("the status page", () => {
  beforeAll(async () => {
    browser = await Effect.runPromise(Scope.provide(Chromium.launch, scope))
  })
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

  it.live(
    "shows a switch within a second, and the chain of the call and the end of each cooldown",
    () =>
      Effect.gen(function* () {
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port)
        yield* shows(page, "#running", "No call is under way.")
        const delays: Array<number> = []
        for (const number of [1, 2, 3]) {
          yield* World.call
          const start = yield* Clock.currentTimeMillis
          yield* shows(page, `#recent > li:nth-child(${number}) details`, "attempt")
          delays.push((yield* Clock.currentTimeMillis) - start)
        }
        // The fastest: another program of the machine may hold one of them up.
        assert.isBelow(Math.min(...delays), 1_000)
        const summary = page.locator("#recent summary").last()
        // With the keyboard alone.
        yield* promise(() => summary.focus())
        yield* promise(() => page.keyboard.press("Enter"))
        const chain = yield* promise(() => page.locator("#recent details[open] ol").innerText())
        for (const text of [
          "#ANTHROPIC_API_KEY",
          "401",
          "#ANTHROPIC_API_KEY_2",
          "429",
          "#OPENAI_API_KEY",
          "answered"
        ])
          assert.include(chain, text)
        const targets = yield* promise(() => page.locator("#targets").innerText())
        assert.match(targets, /cooling\s+anthropic\/claude-sonnet-4-5 · ANTHROPIC_API_KEY_2\s/)
        assert.match(targets, /rate limited \(HTTP 429\).* · covers the .*\s+next try in \d+ s/)
        // Waiting does not bring a refused key back, so nothing counts down.
        assert.match(targets, /needs a person\s+anthropic\/claude-sonnet-4-5 · ANTHROPIC_API_KEY/)
        assert.match(targets, /the key was refused \(HTTP 401\).*\s+Set ANTHROPIC_API_KEY to a valid key/)
        assert.match(targets, /ready\s+openai\/gpt-4.1 · OPENAI_API_KEY/)
        const label = yield* promise(() =>
          page.locator("#targets li:last-child .strip").getAttribute("aria-label")
        )
        assert.strictEqual(label, "Last 15 minutes: 3 answered, 0 failed, 0 times not asked")
        // One bar for each step, on the axis of the call.
        assert.strictEqual(
          yield* promise(() => page.locator("#recent details[open] .bar rect[data-from]").count()),
          yield* promise(() => page.locator("#recent details[open] .steps > li").count())
        )
        assert.match(yield* promise(() => page.locator("#summary").innerText()), /attempts per call\s+1.67/)
        assert.isTrue(yield* promise(() => page.locator("#recent details[open]").isVisible()), "stays open")
        assert.deepStrictEqual(errors, [])
      }).pipe(Effect.scoped, Effect.provide(World.layer({ page }))),
    60_000
  )

  it.live(
    "weighs at most 60 KB",
    () =>
      Effect.gen(function* () {
        const { page: port } = yield* Ops.Ops
        const sizes = new Map<string, Promise<number>>()
        const { errors } = yield* open(port, undefined, (page) =>
          page.on("response", (response) => {
            const { pathname } = new URL(response.url())
            if (pathname !== "/events" && !pathname.startsWith("/api/"))
              sizes.set(
                pathname,
                response.body().then(({ length }) => length)
              )
          })
        )
        const weights = yield* promise(() => Promise.all(sizes.values()))
        assert.isAbove(sizes.size, 10)
        assert.isAtMost(
          weights.reduce((sum, one) => sum + one, 0),
          60_000
        )
        assert.deepStrictEqual(errors, [])
      }).pipe(Effect.scoped, Effect.provide(World.layer({ page }))),
    60_000
  )

  it.live(
    "survives a restart of the server",
    () =>
      Effect.gen(function* () {
        const start = (port: number) =>
          Effect.gen(function* () {
            const scope = yield* Scope.make()
            const context = yield* Layer.buildWithScope(World.layer({ page: { port } }), scope)
            return { scope, context }
          })
        const first = yield* start(0)
        const { page: port = 0 } = yield* Effect.provideContext(Ops.Ops, first.context)
        const { errors, page } = yield* open(port)
        yield* Effect.provideContext(World.call, first.context)
        yield* shows(page, "#recent", "recovered")
        yield* Scope.close(first.scope, Exit.void)
        yield* shows(page, "#connection", "connection lost")
        yield* shows(page, "#age", "last update")
        yield* shows(page, "body.gone #headline", "The program has not answered since")
        yield* shows(page, "#said", "The program has not answered since")
        yield* promise(() => PageChecks.isAccessible(page))
        const second = yield* start(port)
        yield* shows(page, "#connection", "live")
        assert.strictEqual(yield* promise(() => page.locator("body.gone").count()), 0)
        // A new process knows nothing of the earlier calls.
        yield* shows(page, "#recent", "No call has ended yet.")
        yield* Effect.provideContext(World.call, second.context)
        yield* shows(page, "#recent", "recovered")
        yield* Scope.close(second.scope, Exit.void)
        // The browser reports each refused connection itself.
        const own = errors.filter((text) => !/net::ERR_/.test(text))
        assert.deepStrictEqual(own, [])
      }).pipe(Effect.scoped),
    60_000
  )

  it.live(
    "asks before a circuit is opened, says where its calls go, and undoes it",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        const phase = Effect.map(breaker.state("openai"), (state) => state.phase)
        yield* Host.section(
          "circuits",
          Effect.map(breaker.state("openai"), ({ circuit, phase }) => [{ circuit, phase, until: null }])
        )
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port)
        const press = (name: string) => promise(() => page.getByRole("button", { name }).first().click())
        yield* promise(() => page.locator("#token").fill(World.token))
        yield* promise(() => page.keyboard.press("Enter"))
        yield* press("Open the circuit…")
        yield* shows(
          page,
          "#ask[open]",
          "Open the circuit of openai? Until its next probe its calls go to anthropic."
        )
        yield* press("Cancel")
        assert.strictEqual(yield* phase, "closed")
        yield* press("Open the circuit…")
        yield* promise(() => page.locator("#ask-yes").click())
        yield* shows(page, "#message", "Done: circuit openai is open.")
        yield* shows(page, "#headline.bad", "An operator opened the circuit openai")
        yield* shows(page, "#operators", "an operator: trip openai")
        assert.strictEqual(yield* phase, "open")
        yield* promise(() => page.locator("#message button").click())
        yield* shows(page, "#headline.good", "All is well")
        assert.strictEqual(yield* phase, "closed")
        assert.deepStrictEqual(errors, [])
      }).pipe(Effect.scoped, Effect.provide(World.operated({ answers: () => ({ text: "The Nile." }) }))),
    60_000
  )

  it.live(
    "takes a click that is under way while its row changes",
    () =>
      Effect.gen(function* () {
        let reads = 0
        yield* Host.section(
          "circuits",
          Effect.sync(() => [{ circuit: "openai", phase: "closed", until: null, reads: reads++ }])
        )
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port)
        yield* promise(async () => {
          await page.locator("#token").fill(World.token)
          await page.keyboard.press("Enter")
          await page.locator("button[data-key='circuit-openai']").hover()
          await page.mouse.down()
        })
        const before = reads
        yield* World.call
        yield* Effect.repeat(Effect.sleep("20 millis"), { until: () => reads > before + 1 })
        yield* promise(() => page.mouse.up())
        yield* shows(page, "#ask[open]", "Open the circuit of openai?")
        assert.deepStrictEqual(errors, [])
      }).pipe(Effect.scoped, Effect.provide(World.operated({ answers: () => ({ text: "The Nile." }) }))),
    60_000
  )

  it.live(
    "is used with the keyboard alone, and says aloud what has changed",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        let reads = 0
        yield* Host.section(
          "circuits",
          // Another one each time, so that the list is drawn again while the keyboard is in it.
          Effect.map(breaker.state("openai"), ({ circuit, phase }) => [
            { circuit, phase, until: null, reads: reads++ }
          ])
        )
        let isStuck = false
        yield* Host.section(
          "outbox",
          Effect.sync(() => ({ backlog: isStuck ? reads : 0, bytes: 0, oldestAt: isStuck ? 0 : null }))
        )
        yield* World.call
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port)
        const press = (key: string) => promise(() => page.keyboard.press(key))
        /** What has the focus: its key, id or text, and how it is marked. */
        const focus = promise((): Promise<{ name: string; isMarked: boolean; isAsked: boolean }> =>
          page.evaluate(`(() => {
              const one = document.activeElement
              const { outlineStyle, outlineWidth } = getComputedStyle(one)
              return {
                name: one.tagName === "BODY" ? "" : (one.dataset.key ?? (one.id || one.textContent)),
                isMarked: outlineStyle === "solid" && parseFloat(outlineWidth) >= 2,
                isAsked: one.closest("#ask") !== null
              }
            })()`)
        )
        /** Presses Tab until the name has the focus, or the page has been gone through. */
        const tabTo = (wanted: string) =>
          Effect.gen(function* () {
            const seen: Array<string> = []
            for (let i = 0; i < 30; i++) {
              yield* press("Tab")
              const { isMarked, name } = yield* focus
              if (name === wanted || seen.includes(name)) return [...seen, name]
              assert.isTrue(isMarked || name === "", name)
              seen.push(name)
            }
            return assert.fail(`${wanted} was not reached: ${seen.join(", ")}`)
          })
        assert.strictEqual((yield* tabTo("token")).at(-1), "token")
        yield* promise(() => page.keyboard.type(World.token))
        yield* press("Enter")
        yield* shows(page, "#message", "The actions of operators are on.")
        yield* shows(page, "#circuits", "Open the circuit…")
        // Everything that can be used is reached.
        const reached = yield* tabTo("nothing")
        const usable = yield* promise((): Promise<Array<string>> =>
          page.evaluate(
            `[...document.querySelectorAll("button, summary, input, a[href], [tabindex='0']")]
                .filter((one) => one.checkVisibility())
                .map((one) => one.dataset.key ?? (one.id || one.textContent))`
          )
        )
        assert.isAtLeast(usable.length, 2)
        assert.includeMembers(reached, usable)
        // The dialog keeps the focus, and gives it back.
        assert.strictEqual((yield* tabTo("circuit-openai")).at(-1), "circuit-openai")
        yield* press("Enter")
        yield* shows(page, "#ask[open]", "Open the circuit of openai?")
        for (let i = 0; i < 6; i++) {
          const { isAsked, name } = yield* focus
          assert.isTrue(isAsked || name === "", `the focus is at ${name}`)
          yield* press("Tab")
        }
        const before = reads
        yield* World.call
        yield* Effect.repeat(Effect.sleep("20 millis"), { until: () => reads > before + 1 })
        yield* press("Escape")
        assert.deepInclude(yield* focus, { name: "circuit-openai", isMarked: true })
        assert.strictEqual((yield* breaker.state("openai")).phase, "closed")
        yield* press("Enter")
        assert.strictEqual((yield* tabTo("ask-yes")).at(-1), "ask-yes")
        yield* press("Enter")
        yield* shows(page, "#message", "Done: circuit openai is open.")
        yield* shows(page, "#said", "An operator opened the circuit openai")
        yield* shows(page, "#circuits", "Close it")
        assert.deepInclude(yield* focus, { name: "circuit-openai", isMarked: true })
        yield* press("Enter")
        yield* shows(page, "#said", "All is well")
        // The same sentences are not said again when a number in them changes.
        isStuck = true
        yield* World.call
        yield* shows(page, "#said", "The broker takes no events")
        const shown = yield* promise(() => page.locator("#headline").innerText())
        yield* promise(() =>
          page.evaluate(
            "new MutationObserver(() => (document.body.dataset.said = 'again')).observe(document.querySelector('#said'), { childList: true, characterData: true, subtree: true })"
          )
        )
        yield* World.call
        yield* Effect.repeat(
          promise(() => page.locator("#headline").innerText()),
          { until: (text) => text !== shown }
        )
        assert.strictEqual(yield* promise(() => page.locator("body[data-said]").count()), 0)
        assert.deepStrictEqual(errors, [])
      }).pipe(Effect.scoped, Effect.provide(World.operated({ answers: () => ({ text: "The Nile." }) }))),
    60_000
  )

  it.live(
    "fits a phone and any screen, in light and dark, and shows a hostile name as text",
    () =>
      Effect.gen(function* () {
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port, { width: 360, height: 740 })
        const name = `<img src=x onerror="document.title='hacked'">${"x".repeat(200)}`
        yield* ResilienceEvents.publishNow<Alerts.AlertRaised>({
          _tag: "AlertRaised",
          key: name,
          failures: 10,
          window: 1
        })
        for (let i = 1; i < 25; i++) {
          yield* ResilienceEvents.publishNow<Alerts.AlertRaised>({
            _tag: "AlertRaised",
            key: `provider ${i}`,
            failures: 10,
            window: 1
          })
        }
        yield* World.call
        yield* shows(page, "#alerts", name)
        yield* shows(page, "#alerts summary", "5 more")
        yield* shows(page, "#recent", "recovered")
        yield* promise(() => PageChecks.openAll(page))
        for (const colorScheme of PageChecks.themes) {
          yield* promise(() => page.emulateMedia({ colorScheme }))
          yield* promise(() => PageChecks.fits(page))
        }
        assert.notStrictEqual(yield* promise(() => page.title()), "hacked")
        assert.deepStrictEqual(errors, [])
      }).pipe(Effect.scoped, Effect.provide(World.layer({ page }))),
    60_000
  )

  it.live(
    "shows the outbox and its dead letters, and replays one",
    () => {
      const replayed: Array<ReadonlyArray<string>> = []
      const replay = Ops.action({
        doc: "Replays.",
        params: Schema.Struct({ ids: Schema.Array(Schema.String) }),
        run: ({ ids }) => Effect.sync(() => (replayed.push(ids), null))
      })
      const token = "operator-token-0123456789"
      const letter = (number: number, state: string) => ({
        number,
        id: `e${number}`,
        subject: "answers",
        reason: "rejected",
        detail: "The broker refused it.",
        died: new Date(0).toISOString(),
        state
      })
      return Effect.gen(function* () {
        yield* Host.section("outbox", Effect.succeed({ backlog: 3, bytes: 2_000, oldestAt: 0 }))
        yield* Host.section(
          "dead letters",
          Effect.succeed({ total: 7, newest: [letter(2, "dead"), letter(1, "replayed")] })
        )
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port)
        yield* shows(page, "#outbox", "3 events wait for the broker")
        const text = yield* promise(() => page.locator("#outbox").innerText())
        for (const part of ["2 KiB", "the oldest for", "answers · e2 · rejected: The broker refused it."])
          assert.include(text, part)
        assert.include(text, "and 5 more dead letters")
        yield* promise(async () => {
          await page.locator("#token").fill(token)
          await page.locator("#access button").click()
          await page.locator('#outbox button:text-is("Replay")').click()
        })
        yield* shows(page, "#message", "Done: event e2 is sent again.")
        assert.deepStrictEqual(replayed, [["2"]])
        assert.deepStrictEqual(errors, [])
      }).pipe(
        Effect.scoped,
        Effect.provide(World.layer({ page: { ...page, token: Redacted.make(token), actions: { replay } } }))
      )
    },
    60_000
  )

  it.live(
    "counts each wait down to its own end, and each target to its next try",
    () =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const target = (id: string, rest: object) => ({
          id,
          provider: "acme",
          model: id,
          key: "",
          state: "ready",
          reason: null,
          message: null,
          until: null,
          nextTry: 0,
          lastSuccessAt: null,
          cooldowns: [],
          circuits: [],
          ...rest
        })
        const wait = (text: string, reason: string, seconds: number) => ({
          call: seconds,
          startedAt: now,
          outcome: "running",
          attempts: 1,
          omitted: 0,
          steps: [{ at: now, kind: "wait", state: "running", text, reason, until: now + seconds * 1_000 }]
        })
        yield* Host.section(
          "targets",
          Effect.succeed([
            // Back in 60 minutes, probed in 45.
            target("probed", { state: "cooling", until: now + 3_600_000, nextTry: now + 2_700_000 }),
            // The server named a longer wait to one call.
            target("named", { state: "cooling", until: now + 3_600_000, nextTry: now + 3_600_000 }),
            target("limited", { nextTry: now + 900_000 }),
            target("window", { state: "cooling", until: now + 900_000 })
          ])
        )
        yield* Host.section(
          "activity",
          Effect.succeed({
            recent: [],
            circuits: [],
            alerts: [],
            minutes: [],
            histories: [],
            notices: [],
            running: [wait("named", "cooldown", 7_000), wait("probed", "budget", 1_200)]
          })
        )
        const { page: port } = yield* Ops.Ops
        const { errors, page } = yield* open(port)
        yield* shows(page, "#targets", "probed")
        const rows = (id: string) =>
          promise(async () =>
            (await page.locator(`#${id} > li`).allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "))
          )
        const [probed, named, limited, window] = yield* rows("targets")
        assert.match(probed ?? "", /next try in 45 min/)
        assert.match(named ?? "", /next try in 60 min/)
        assert.match(limited ?? "", /ready .* its limits let the next call through in 15 min/)
        assert.match(window ?? "", /next try now/)
        const [cooling, budget] = yield* rows("running")
        assert.match(cooling ?? "", /because all targets are out: named ends in 117 min/)
        assert.match(budget ?? "", /for the retry budget: probed gives up in 20 min/)
        assert.match(yield* promise(() => page.locator("#headline").innerText()), /next try now/)
        assert.deepStrictEqual(errors, [])
      }).pipe(
        Effect.scoped,
        Effect.provide(
          Ops.layer({ probes: false, metrics: false, page }).pipe(
            Layer.provideMerge(Host.layer({ wait: 0 })),
            Layer.provideMerge(ResilienceEvents.layer())
          )
        )
      ),
    60_000
  )

  it.live(
    "turns the actions on with the token, and says when it is wrong",
    () => {
      const lifted: Array<string> = []
      const lift = Ops.action({
        doc: "Ends cooldowns.",
        params: World.Lift,
        run: ({ target }) => Effect.sync(() => (lifted.push(target), null))
      })
      const token = "operator-token-0123456789"
      return Effect.gen(function* () {
        yield* Host.section("circuits", Effect.succeed([]))
        const { page: port } = yield* Ops.Ops
        const { page } = yield* open(port)
        yield* World.call
        yield* shows(page, "#targets", "next try in")
        const enter = (text: string) =>
          promise(async () => {
            await page.locator("#token").fill(text)
            await page.keyboard.press("Enter")
          })
        const press = promise(() =>
          page.locator("button[data-key='lift-anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY_2']").click()
        )
        yield* enter(`${token}-is-wrong`)
        yield* press
        yield* shows(page, "#access-note", "The token was refused.")
        assert.deepStrictEqual(lifted, [])
        yield* enter(token)
        yield* press
        yield* shows(
          page,
          "#message",
          "Done: calls may go to anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY_2 again."
        )
        assert.deepStrictEqual(lifted, ["anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY_2"])
        assert.notInclude(yield* promise(() => page.content()), token)
      }).pipe(
        Effect.scoped,
        Effect.provide(World.layer({ page: { ...page, token: Redacted.make(token), actions: { lift } } }))
      )
    },
    60_000
  )
})
