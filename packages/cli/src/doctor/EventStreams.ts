/**
 * Whether the JetStream streams of the subjects that a program publishes can lose events.
 *
 * A subject without a stream, a stream without acknowledgements and a server that does not answer are errors; what can
 * lose events only in an outage is a warning. Nothing is published and nothing is changed.
 */
import { NatsBus } from "@outlast/delivery/nats"
import type { Finding } from "@outlast/delivery/nats"
import { Effect } from "effect"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

const errors: ReadonlyArray<Finding["problem"]> = ["noStream", "noAck", "unknown"]

/** Problems of the streams behind these subjects, as the server at these addresses tells. */
export const problems = (
  servers: string,
  subjects: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Problem>> =>
  NatsBus.check({ subjects }).pipe(
    Effect.map((findings) =>
      findings.map(({ problem, message }) =>
        errors.includes(problem) ? Problems.error(null, message) : Problems.warning(message)
      )
    ),
    Effect.catch(({ message }) => Effect.succeed([Problems.error(null, message)])),
    Effect.provide(NatsBus.layer({ servers: servers.split(","), timeout: "5 seconds" }))
  )
