/**
 * Routes: from the model that a caller asks for, in a wire format, to the calls of a chain.
 *
 * With routes of its own, a gateway serves these and nothing else. Without, it serves every model of the vendors whose keys
 * are in the environment: OpenAI for Chat Completions and Responses, Anthropic for Messages. Further keys of a vendor have
 * the same name with `_2` to `_9`.
 *
 * A chain is built with its first call, and kept: cooldowns and circuits hold from call to call. Chains of different wire
 * formats are different chains, because a target speaks only some of them.
 */
import { RecoveryPolicy } from "@outlast/agent"
import type { Chain, ProviderModel } from "@outlast/agent"
import { Calls } from "@outlast/agent/internal"
import { Anthropic, OpenAi } from "@outlast/providers"
import { Wiring } from "@outlast/providers/internal"
import { Config, Data, Effect, Exit, Scope } from "effect"
import * as WireModel from "./target/WireModel.ts"
import type { Wire } from "./wire/Wire.ts"

export interface Route {
  /** The targets in order. Each keeps its own model, key and endpoint. */
  readonly chain: readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]
  /**
   * Default: `RecoveryPolicy.interactive`. Its `truncation` has no effect: an answer that the caller's own limit cut is
   * complete for the caller.
   */
  readonly policy?: RecoveryPolicy.RecoveryPolicy | undefined
}

/** The gateway has no chain for a request. */
export class NoRoute extends Data.TaggedError("NoRoute")<{
  readonly status: number
  readonly code: string
  readonly message: string
}> {}

export interface Routes {
  readonly find: (model: string, wire: Wire) => Effect.Effect<Calls.Calls, NoRoute | Chain.ChainError>
  /** Names of the routes; `undefined` where any model of a vendor is served. */
  readonly names: ReadonlyArray<string> | undefined
}

export interface Sources {
  readonly routes: Readonly<Record<string, Route>> | undefined
  readonly fetch: typeof globalThis.fetch
}

/** Chains to keep. The one that was used longest ago is dropped first. */
const maxChains = 256

export const make = ({ fetch, routes }: Sources): Effect.Effect<Routes, never, Scope.Scope> =>
  Effect.gen(function* () {
    const parent = yield* Effect.scope
    const kept = new Map<
      string,
      { readonly calls: Effect.Effect<Calls.Calls, Chain.ChainError>; readonly scope: Scope.Closeable }
    >()
    const built = (name: string, route: Route): Effect.Effect<Calls.Calls, Chain.ChainError> =>
      Effect.suspend(() => {
        const known = kept.get(name)
        if (known !== undefined) {
          kept.delete(name)
          kept.set(name, known)
          return known.calls
        }
        const [oldest] = kept
        const scope = Scope.forkUnsafe(parent)
        const build = Calls.make(route.chain, policyOf(route)).pipe(
          Scope.provide(scope),
          Effect.tapError(() => Effect.sync(() => kept.delete(name)))
        )
        return Effect.flatMap(Effect.cached(build), (calls) => {
          kept.set(name, { calls, scope })
          const isFull = kept.size > maxChains && oldest !== undefined
          if (isFull) kept.delete(oldest[0])
          return isFull ? Effect.andThen(Scope.close(oldest[1].scope, Exit.void), calls) : calls
        })
      })
    return {
      names: routes === undefined ? undefined : Object.keys(routes),
      find: (model, wire) =>
        Effect.flatMap(routes === undefined ? fromKeys(model, wire) : named(routes, model), (route) => {
          const chain = route.chain.flatMap((spec) => spokenBy(spec, wire, fetch))
          const [first, ...rest] = chain
          const calls: Effect.Effect<Calls.Calls, NoRoute | Chain.ChainError> =
            first === undefined
              ? Effect.fail(unspoken(model, wire))
              : built(`${wire.name}/${model}`, { ...route, chain: [first, ...rest] })
          return calls
        })
    }
  })

const policyOf = ({ policy = RecoveryPolicy.interactive }: Route) => ({
  policy: { ...policy, truncation: false as const }
})

/** The target as one that sends the caller's own request; nothing where it does not speak the wire. */
const spokenBy = (
  spec: ProviderModel.TargetSpec,
  wire: Wire,
  fetch: typeof globalThis.fetch
): ReadonlyArray<ProviderModel.TargetSpec> => {
  const wiring = Wiring.of(spec)
  if (wiring === undefined || !wiring.wires.includes(wire.name)) return []
  const { model, provider } = spec
  const build = Effect.map(spec.build, ({ info }) => WireModel.make({ provider, model, info, wiring, fetch }))
  return [{ ...spec, build }]
}

const unspoken = (model: string, { title }: Wire): NoRoute =>
  new NoRoute({
    status: 400,
    code: "wire_not_supported",
    message: `No target of the route "${model}" speaks ${title}. Add a target that does, or ask in another format.`
  })

// -----------------------------------------------------------------------------
// Routes by name
// -----------------------------------------------------------------------------

const named = (routes: Readonly<Record<string, Route>>, model: string): Effect.Effect<Route, NoRoute> => {
  const route = Object.hasOwn(routes, model) ? routes[model] : undefined
  if (route !== undefined) return Effect.succeed(route)
  const near = nearest(model, Object.keys(routes))
  const hint = near === undefined ? "" : ` Did you mean "${near}"?`
  return Effect.fail(
    new NoRoute({
      status: 404,
      code: "model_not_found",
      message: `There is no route "${shortened(model)}".${hint}`
    })
  )
}

/** Names of models are short; a longer one is not repeated whole. */
const shortened = (name: string): string => (name.length > 100 ? `${name.slice(0, 100)}…` : name)

/** The name with the fewest changes. */
export const nearest = (name: string, names: ReadonlyArray<string>): string | undefined => {
  const asked = name.slice(0, 100).toLowerCase()
  const ranked = names.map((each) => ({ each, changes: changes(asked, each.slice(0, 100).toLowerCase()) }))
  return ranked.toSorted((a, b) => a.changes - b.changes)[0]?.each
}

/** Insertions, removals and replacements that make one text of the other. */
const changes = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

// -----------------------------------------------------------------------------
// Keys in the environment
// -----------------------------------------------------------------------------

/** Variables of a vendor's keys. */
const variables = (name: string): ReadonlyArray<string> => [
  name,
  ...Array.from({ length: 8 }, (_, i) => `${name}_${i + 2}`)
]

const isSet = (variable: string): Effect.Effect<boolean> =>
  Effect.map(
    Effect.option(Config.String(variable)),
    (value) => value._tag === "Some" && value.value.trim() !== ""
  )

/** The variables of all vendors that are set, in the order of their use. */
export const keysInEnvironment: Effect.Effect<ReadonlyArray<string>> = Effect.filter(
  [...OpenAi.defaults.keys, ...Anthropic.defaults.keys].flatMap(variables),
  isSet
)

/** The variables of a key that are set. Without one, the first: an error then names it. */
const keysFor = (name: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(Effect.filter(variables(name), isSet), (found) => (found.length === 0 ? [name] : found))

const fromKeys = (model: string, wire: Wire): Effect.Effect<Route, NoRoute> => {
  const isAnthropic = wire.name === "messages"
  const [variable = ""] = isAnthropic ? Anthropic.defaults.keys : OpenAi.defaults.keys
  return Effect.flatMap(keysFor(variable), (keys) =>
    Effect.try({
      try: (): Route => ({
        chain: [isAnthropic ? Anthropic.model(model, { keys }) : OpenAi.model(model, { keys })]
      }),
      // The name is the caller's own.
      catch: () =>
        new NoRoute({ status: 404, code: "model_not_found", message: "The name of the model is none." })
    })
  )
}
