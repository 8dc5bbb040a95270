"""Parts of all training: run folders, the loop, callbacks, optimisers, ranking, metrics, evaluation, calibration."""
