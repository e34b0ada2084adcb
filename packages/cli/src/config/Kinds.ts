/** The kinds of settings, by name. */
export const kinds = ["outlast", "decision037"] as const
export type Kind = (typeof kinds)[number]
