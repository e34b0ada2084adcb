/** Five known systems as policies and options. */
export * as Backoffs from "./Backoffs.ts"
export * as Presets from "./Presets.ts"
export * as Vocabulary from "./Vocabulary.ts"
