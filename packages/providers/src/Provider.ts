/**
 * What is known of a provider beside its models: its name, its constructors and the names of its keys.
 *
 * Each provider says so in its own file. `Registry` lists them all; doctor, the demo and the documents read that list.
 */
import type { ProviderModel } from "@outlast/agent"

export interface Provider {
  /** Its name in events, errors and the catalogue. */
  readonly provider: string
  /** Its name for people. */
  readonly name: string
  /** What makes its targets. */
  readonly constructors: ReadonlyArray<Constructor>
  /** The variables that its targets read unless told otherwise. Without any, a key is needed only where one is named. */
  readonly keys: ReadonlyArray<string>
  /** A target by the name of a model alone; absent where more is needed, such as a base URL. */
  readonly usual?: Usual | undefined
}

export interface Constructor {
  /** For example `OpenAi.chatModel`. */
  readonly name: string
  /** The wire format, for the documents. */
  readonly speaks: string
}

/** How a program gets a target of this provider when nothing else is known. */
export interface Usual {
  /** The model that the demo takes. */
  readonly model: string
  readonly target: (model: string) => ProviderModel.TargetSpec
}
