/**
 * Whether `outlast gateway` can serve the routes of a file: their targets can be built and have keys, and callers have one
 * where other machines reach it. Nothing is sent, and no value of a variable is shown.
 */
import { Effect, Exit, Option, Redacted, Result } from "effect"
import type { ProviderModel } from "@outlast/agent"
import { RoutesConfig, Server } from "@outlast/gateway"
import { Registry } from "@outlast/providers"
import * as CallerKeys from "../command/CallerKeys.ts"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import * as Keys from "./Keys.ts"
import type { Port } from "./Ports.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

/** `content` is that of a valid file; `ports` are those that the program will open. */
export const examine = (
  file: string,
  content: unknown,
  ports: ReadonlyArray<Port>
): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    // Aliases are further names of the same route.
    const routes = new Map(
      Object.entries(Result.getOrElse(RoutesConfig.decode(content), () => ({})))
        .toReversed()
        .map(([name, route]) => [route, name])
    )
    const problems = yield* Effect.forEach(routes, ([{ chain }, name]) => ofRoute(file, name, chain))
    const count = routes.size === 1 ? "The route has" : `All ${routes.size} routes have`
    return [
      ...Checks.of("routes", problems.flat(), `${count} targets that can be built, with their keys.`, file),
      ...(yield* ofCallers(ports))
    ]
  })

/** The first route of a valid file that can answer no call, in a sentence. */
export const unanswered = (file: string, content: unknown): Effect.Effect<string | undefined> =>
  Effect.map(
    examine(file, content, []),
    (checks) => checks.find(({ area, level }) => area === "routes" && level === "error")?.message
  )

const ofRoute = (file: string, route: string, chain: ReadonlyArray<ProviderModel.TargetSpec>) =>
  Effect.gen(function* () {
    const targets = yield* Effect.forEach(chain, (spec) => ofTarget(`routes.${route}: `, spec))
    const problems = targets.flatMap(({ problems }) => problems)
    return targets.some(({ isUsable }) => isUsable)
      ? problems
      : [...problems, Problems.error(file, `routes.${route}: no target can be used, so it answers no call.`)]
  })

const ofTarget = (
  at: string,
  { build, keys, model, provider }: ProviderModel.TargetSpec
): Effect.Effect<{ readonly isUsable: boolean; readonly problems: ReadonlyArray<Problem> }> =>
  Effect.gen(function* () {
    const name = `${provider}/${model}`
    const loaded = yield* Effect.forEach(keys, ({ load, name }) =>
      Effect.map(Effect.option(load), (value) => ({
        name,
        value: Option.match(value, { onNone: () => "", onSome: (value) => Redacted.value(value).trim() })
      }))
    )
    const set = loaded.filter(({ value }) => value !== "")
    const missing = loaded.filter(({ value }) => value === "").map(({ name }) => name)
    const isBuilt = Exit.isSuccess(yield* Effect.exit(Effect.scoped(build)))
    return {
      isUsable: isBuilt && (keys.length === 0 || set.length > 0),
      problems: [
        ...(isBuilt ? [] : [Problems.warning(`${at}${name} cannot be built. Look at its fields.`)]),
        ...(missing.length === 0
          ? []
          : [
              Problems.warning(
                set.length === 0
                  ? `${at}${name} has no key. Set ${missing.join(" or ")}.`
                  : `${at}${name} goes without ${missing.join(", ")}: not set.`
              )
            ]),
        // The usual keys of the providers are examined by themselves.
        ...set
          .filter(({ name }) => !Registry.keys.includes(name))
          .flatMap(({ name, value }) => Keys.flaws(value).map((flaw) => Problems.warning(`${name} ${flaw}`)))
      ]
    }
  })

const ofCallers = (ports: ReadonlyArray<Port>): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const keys = yield* Effect.orElseSucceed(CallerKeys.load, () => [])
    const wrong = ["127.0.0.1", ...ports.flatMap(({ host }) => host ?? [])]
      .map((host) => Server.refusedKeys(host, keys))
      .find((message) => message !== undefined)
    return Checks.of(
      "callers",
      wrong === undefined ? [] : [Problems.error(null, CallerKeys.hinted(wrong))],
      keys.length === 0
        ? `Callers on this machine need no key. A --host beyond loopback needs ${CallerKeys.name}.`
        : `Callers need a key of ${CallerKeys.name}.`
    )
  })
