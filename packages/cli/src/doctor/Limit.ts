/** The time limit for code of the user. */
import { Duration } from "effect"

export const limit = Duration.seconds(10)

export const inWords = "10 seconds"
