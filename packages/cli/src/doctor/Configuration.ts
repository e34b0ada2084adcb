/** Whether a file of settings is complete and valid, as `outlast config check` reads it; routes of a gateway, too. */
import { Effect, Option } from "effect"
import type { FileSystem } from "effect"
import * as ConfigCheck from "../config/ConfigCheck.ts"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import * as GatewayRoutes from "./GatewayRoutes.ts"
import type { Port } from "./Ports.ts"
import * as Problems from "./Problem.ts"

export const examine = (
  file: string,
  ports: ReadonlyArray<Port>
): Effect.Effect<ReadonlyArray<Check>, never, FileSystem.FileSystem> =>
  Effect.matchEffect(ConfigCheck.given({ file, kind: Option.none() }), {
    onFailure: (error) =>
      Effect.succeed(
        Checks.of(
          "configuration",
          error._tag === "WrongSettings"
            ? error.details.problems.map(({ path, problem }) =>
                Problems.error(file, path === "" ? problem : `${path}: ${problem}`)
              )
            : [Problems.error(file, error.message)],
          ""
        )
      ),
    onSuccess: ({ content, format, kind, settings }) =>
      Effect.map(
        kind === "gateway" ? GatewayRoutes.examine(file, content, ports) : Effect.succeed([]),
        (routes) => [
          ...Checks.of(
            "configuration",
            [],
            `${format}, ${settings.length} settings, all of them valid.`,
            file
          ),
          ...routes
        ]
      )
  })
