/** Whether a file of settings is complete and valid, as `outlast config check` reads it. */
import { Effect, Option } from "effect"
import type { FileSystem } from "effect"
import * as ConfigCheck from "../config/ConfigCheck.ts"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import * as Problems from "./Problem.ts"

export const examine = (file: string): Effect.Effect<ReadonlyArray<Check>, never, FileSystem.FileSystem> =>
  Effect.match(ConfigCheck.given({ file, kind: Option.none() }), {
    onFailure: (error) =>
      Checks.of(
        "configuration",
        error._tag === "WrongSettings"
          ? error.details.problems.map(({ path, problem }) =>
              Problems.error(file, path === "" ? problem : `${path}: ${problem}`)
            )
          : [Problems.error(file, error.message)],
        ""
      ),
    onSuccess: ({ format, settings }) =>
      Checks.of("configuration", [], `${format}, ${settings.length} settings, all of them valid.`, file)
  })
