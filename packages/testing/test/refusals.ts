/** A table of the requests that an API refuses. Each row is a test, and every rule must have a row. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import type { Api, Response } from "./http.ts"
import { hello, post } from "./http.ts"

interface Case {
  readonly rule: string
  readonly why?: string
  /** Fields added to the smallest valid request. */
  readonly body: Record<string, unknown>
  readonly message: string | RegExp
  /** Further fields of the error. */
  readonly error?: Record<string, unknown>
  /** HTTP status. Default: 400. */
  readonly status?: number
  /** Similar requests that are accepted. */
  readonly fine?: ReadonlyArray<Record<string, unknown>>
}

interface Options {
  readonly api: Api
  readonly rules: ReadonlyArray<{ readonly name: string; readonly disputed?: boolean }>
  readonly cases: ReadonlyArray<Case>
  /** Rules that are tested elsewhere. */
  readonly elsewhere?: ReadonlyArray<string>
  readonly server?: Partial<FakeProvider.Options>
  /** Builds the expected error object of a case. */
  readonly error: (said: Record<string, unknown>, refused: Response, status: number) => object
}

export const refusals = ({ api, rules, cases, elsewhere = [], server: options, error }: Options) => {
  const served = (strict: boolean) =>
    FakeProvider.make({ plan: { answers: () => ({ text: "Fine." }) }, ...options, strict })

  describe(`${api} refuses`, () => {
    for (const { rule, why, body, message, status = 400, fine = [], ...said } of cases) {
      it.live(why === undefined ? rule : `${rule}: ${why}`, () =>
        Effect.gen(function* () {
          const server = yield* served(true)
          const refused = yield* post(server, api, { ...hello[api], ...body })
          assert.strictEqual(refused.status, status, refused.text)
          const given: string = refused.body.error.message
          if (typeof message === "string") assert.strictEqual(given, message)
          else assert.match(given, message)
          assert.deepStrictEqual(refused.body.error, {
            message: given,
            ...error(said.error ?? {}, refused, status)
          })
          const [recorded] = yield* server.requests
          assert.strictEqual(recorded?.outcome.type === "refused" ? recorded.outcome.rule : "", rule)
          for (const neighbour of fine) {
            const accepted = yield* post(server, api, { ...hello[api], ...neighbour })
            assert.strictEqual(accepted.status, 200, accepted.text)
          }
        }).pipe(Effect.scoped)
      )
    }

    it("every rule has a case", () => {
      const covered = new Set([...cases.map(({ rule }) => rule), ...elsewhere])
      const names = rules.map(({ name }) => name)
      assert.deepStrictEqual(
        names.filter((name) => !covered.has(name)),
        []
      )
      assert.strictEqual(new Set(names).size, names.length)
    })

    it.live("disputed requests only when strict", () =>
      Effect.gen(function* () {
        const server = yield* served(false)
        const disputed = cases.filter(
          ({ rule }) => rules.find(({ name }) => name === rule)?.disputed === true
        )
        assert.isAbove(disputed.length, 0)
        for (const { body } of disputed) {
          const accepted = yield* post(server, api, { ...hello[api], ...body })
          assert.strictEqual(accepted.status, 200, accepted.text)
        }
      }).pipe(Effect.scoped)
    )
  })
}
