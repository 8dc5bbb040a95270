"""What every training shares: run folders, the loop, callbacks, optimisers, ranking, evaluation, calibration."""
