// One implementation for both module systems: an application that uses both has one set of classes.
export * from './index.js'
