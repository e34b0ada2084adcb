/** Tasks on the status page of `outlast serve`, in a real browser. */
import { join } from "node:path"
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqliteClient } from "@outlast/node/sqlite"
import { Tasks } from "@outlast/tasks"
import * as Chromium from "../../../test/ops/Chromium.ts"
import * as Agents from "../../../test/tasks/Agents.ts"
import { ask, folder, json, serve, service, token } from "./served.ts"

/** Leaves a task whose payment was cut off by its time limit. */
const doubtful = (filename: string) => {
  const handlers = Agents.Shop.toLayer({
    look: () => Effect.succeed("a page"),
    pay: () => Effect.never
  })
  const worker = Agents.Buy.toLayer(({ item }) => ({ prompt: `Buy ${item}.`, toolTimeout: "100 millis" }))
  const layer = worker.pipe(
    Layer.provide([Agents.model(Agents.world()), handlers]),
    Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void })),
    Layer.provide(SqliteClient.layer({ filename }))
  )
  return Effect.gen(function* () {
    const id = yield* Agents.Buy.submit({ params: { item: "a book" }, key: "1" })
    const { status } = yield* Tasks.Tasks
    yield* Effect.repeat(Effect.andThen(Effect.sleep("50 millis"), status(id)), {
      until: (found) => Option.getOrUndefined(found)?.state._tag === "InDoubt"
    })
  }).pipe(Effect.provide(layer), Effect.orDie)
}

describe.skipIf(Chromium.isMissing())("the status page of outlast serve", () => {
  service(
    "shows tasks, and lets an operator decide about an effect in doubt",
    Effect.gen(function* () {
      const data = yield* folder
      yield* doubtful(join(data, "tasks.db"))
      const { output, page: url } = yield* serve(data, [], { OUTLAST_OPS_TOKEN: token })
      const send = (path: string, body: unknown) =>
        ask(`${url}${path}`, {
          method: "POST",
          headers: { ...json, authorization: `Bearer ${token}` },
          body: JSON.stringify(body)
        })
      yield* send("/api/tasks", { prompt: "count to 10000", key: "long" })
      const unnamed = { task: "buy/1", verdict: { _tag: "DidNot" } }
      assert.strictEqual((yield* send("/api/actions/decide", unnamed)).status, 400)
      assert.strictEqual((yield* send("/api/actions/decide", { ...unnamed, key: "x" })).status, 409)
      const { sections } = JSON.parse((yield* ask(`${url}/api/state`)).text)
      const found = sections.tasks.find(({ id }: { readonly id: string }) => id === "buy/1")
      assert.deepInclude(found, { state: "InDoubt", agent: "buy@1" })
      assert.match(found.effect.key, /^buy\/1#\d+\.1\/turn\/2\/tool\/pay-1$/)
      assert.deepInclude(found.effect, { tool: "pay", params: '{"cents":100}' })
      const browser = yield* Chromium.launch
      yield* Effect.promise(async () => {
        const page = await browser.newPage()
        page.setDefaultTimeout(10_000)
        const errors: Array<string> = []
        page.on("console", (message) => {
          if (message.type() === "error") errors.push(message.text())
        })
        await page.goto(url)
        const tasks = page.locator("#tasks")
        await tasks.filter({ hasText: "task buy/1 · in doubt: has pay happened?" }).waitFor()
        await tasks.filter({ hasText: "task prompt/long · turn 1 on outlast serve" }).waitFor()
        await page.locator("#token").fill(token)
        await page.keyboard.press("Enter")
        await tasks.getByRole("button", { name: "It did not" }).click()
        await page.locator("#ask[open]").filter({ hasText: "Task buy/1 does pay again." }).waitFor()
        await page.locator("#ask-yes").click()
        await page.locator("#message").filter({ hasText: "Done: It did not (task buy/1)." }).waitFor()
        assert.deepStrictEqual(errors, [])
      })
      assert.include(output(), "Operator: decide of buy/1 (DidNot) done.")
      const other = { task: "buy/1", verdict: { _tag: "Happened", result: "paid" }, key: found.decision }
      assert.strictEqual((yield* send("/api/actions/decide", other)).status, 409)
    })
  )
})
