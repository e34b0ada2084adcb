/**
 * Whether the lock of a program is free. A lock that exists is taken for a moment, because only that shows whether it is
 * held: a program that starts at the same moment, and does not wait, would be refused.
 */
import { Effect } from "effect"
import { StoreLock } from "@outlast/node/lock"
import { constants } from "node:fs"
import { access } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

export const examine = (file: string): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    if (yield* allows(file, constants.F_OK)) {
      const problems = yield* Effect.scoped(StoreLock.acquire(file)).pipe(
        Effect.match({
          onSuccess: (): ReadonlyArray<Problem> => [],
          onFailure: ({ message, reason }): ReadonlyArray<Problem> => [
            { level: reason === "locked" ? "warning" : "error", file, message }
          ]
        })
      )
      return Checks.of("lock", problems, "The lock is free.", file)
    }
    const folder = dirname(resolve(file))
    const writable = yield* allows(folder, constants.W_OK)
    return Checks.of(
      "lock",
      writable ? [] : [Problems.error(file, `The folder ${folder} is missing or cannot be written to.`)],
      "The lock does not exist yet, and can be created.",
      file
    )
  })

const allows = (path: string, mode: number): Effect.Effect<boolean> =>
  Effect.promise(() =>
    access(path, mode).then(
      () => true,
      () => false
    )
  )
